// Sums seeded jobs of mixed sizes through a client library, and checks every element on every rank.
//
//   real_jobs CONFIG SEED JOBS LIMIT [LEAST MOST]
//
// LIMIT is in seconds, for one job. LEAST and MOST are elements of a job, 1 and 2^17 by default.
// Prints `job N is wrong` for each that is, and at last `jobs N wrong W elements E`. Ends with 0
// where no job was wrong, with 1 where one was, with 2 where it could not start, and with 3 where a
// job did not end.

#include <switchml/context.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kAtOnce = 4;  // jobs that are under way together

std::uint64_t Mixed(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

// A job is the same on all ranks but for its values, which all ranks know of each other.
struct Plan {
  std::size_t numel;
  bool floats;
  std::uint64_t seed;
  double scale;
};

struct Sizes {
  double least = 1;
  double most = 131072;
};

Plan Planned(std::uint64_t seed, std::uint64_t number, const Sizes& sizes) {
  std::mt19937_64 random(Mixed(seed) ^ Mixed(number + 1));
  const double size = std::exp2(std::uniform_real_distribution<double>(
      std::log2(sizes.least), std::log2(sizes.most))(random));
  const auto floats = std::uniform_int_distribution<int>(0, 1)(random) != 0;
  const double scale = std::exp2(std::uniform_int_distribution<int>(-20, 20)(random));
  return {static_cast<std::size_t>(size), floats, random(), scale};
}

std::int32_t Whole(const Plan& plan, unsigned rank, std::size_t index) {
  const auto bits = Mixed(plan.seed ^ Mixed(rank * 0x1000003U + index));
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(bits));
}

float Fraction(const Plan& plan, unsigned rank, std::size_t index) {
  return static_cast<float>(plan.scale * Whole(plan, rank, index) / 2147483648.0);
}

struct Sum {
  Plan plan;
  std::vector<std::uint32_t> in;
  std::vector<std::uint32_t> out;
  std::shared_ptr<switchml::Job> job;
};

void Fill(Sum& sum, unsigned rank) {
  sum.in.resize(sum.plan.numel);
  sum.out.assign(sum.plan.numel, 0xdeadbeefU);
  for (std::size_t i = 0; i < sum.plan.numel; ++i) {
    if (sum.plan.floats) {
      const float value = Fraction(sum.plan, rank, i);
      std::memcpy(&sum.in[i], &value, sizeof sum.in[i]);
    } else {
      sum.in[i] = static_cast<std::uint32_t>(Whole(sum.plan, rank, i));
    }
  }
}

std::size_t WrongElements(const Sum& sum, unsigned workers) {
  // Each rank rounds to a 2^31th of workers times the power of two above its largest value.
  const double bound = sum.plan.scale * (workers * workers + workers) * std::exp2(-30.0) +
                       sum.plan.scale * workers * std::exp2(-22.0);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < sum.plan.numel; ++i) {
    if (sum.plan.floats) {
      double expected = 0;
      for (unsigned rank = 0; rank < workers; ++rank) expected += Fraction(sum.plan, rank, i);
      float found = 0;
      std::memcpy(&found, &sum.out[i], sizeof found);
      wrong += std::fabs(found - expected) <= bound ? 0U : 1U;
    } else {
      std::uint32_t expected = 0;
      for (unsigned rank = 0; rank < workers; ++rank)
        expected += static_cast<std::uint32_t>(Whole(sum.plan, rank, i));
      wrong += sum.out[i] == expected ? 0U : 1U;
    }
  }
  return wrong;
}

bool Ended(switchml::Job& job, double limit) {
  const auto deadline = Clock::now() + std::chrono::duration<double>(limit);
  while (job.GetJobStatus() != switchml::JobStatus::FINISHED) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

int Run(const std::string& path, std::uint64_t seed, std::uint64_t jobs, double limit,
        const Sizes& sizes) {
  switchml::Config config;
  if (!config.LoadFromFile(path)) return 2;
  const unsigned rank = config.general_.rank;
  const unsigned workers = config.general_.num_workers;
  auto& context = switchml::Context::GetInstance();
  if (!context.Start(&config)) return 2;

  std::uint64_t wrong_jobs = 0;
  std::uint64_t wrong_elements = 0;
  const auto report = [&](std::uint64_t ended) {
    std::cout << "jobs " << ended << " wrong " << wrong_jobs << " elements " << wrong_elements
              << std::endl;
  };
  for (std::uint64_t first = 0; first < jobs; first += kAtOnce) {
    std::vector<Sum> sums(std::min<std::uint64_t>(kAtOnce, jobs - first));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i].plan = Planned(seed, first + i, sizes);
      Fill(sums[i], rank);
    }
    for (Sum& sum : sums) {
      sum.job = context.AllReduceAsync(
          sum.in.data(), sum.out.data(), sum.plan.numel,
          sum.plan.floats ? switchml::DataType::FLOAT32 : switchml::DataType::INT32,
          switchml::AllReduceOperation::SUM);
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (!Ended(*sums[i].job, limit)) {
        report(first + i);
        std::_Exit(3);  // the library still has the memory
      }
      const auto wrong = WrongElements(sums[i], workers);
      wrong_elements += wrong;
      if (wrong == 0) continue;
      ++wrong_jobs;
      // At once, as the process may not come to its end.
      std::cout << "job " << first + i << " is wrong" << std::endl;
    }
    // Timers that still run send their packets into a pause.
    if (first % 64 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  report(jobs);
  // Other ranks may need this one to send again what they have not got yet.
  std::this_thread::sleep_for(std::chrono::seconds(2));
  std::_Exit(wrong_jobs == 0 ? 0 : 1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5 && argc != 7) return 2;
  Sizes sizes;
  if (argc == 7) sizes = {std::stod(argv[5]), std::stod(argv[6])};
  return Run(argv[1], std::stoull(argv[2]), std::stoull(argv[3]), std::stod(argv[4]), sizes);
}
