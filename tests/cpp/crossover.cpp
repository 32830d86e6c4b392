// The measurement from which size on SwitchML is faster, with times that are made up and ranks that
// are threads. `crossover CASE` prints the sizes that were measured, and the number that all ranks
// have found.
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "SwitchMLCrossover.hpp"

namespace {

using switchml_torch::Crossover;
using switchml_torch::Timing;
using Nanoseconds = Crossover::Nanoseconds;

void check(bool fact, const std::string& what) {
  if (!fact) {
    std::fprintf(stderr, "FAILED: %s\n", what.c_str());
    std::fflush(nullptr);
    std::_Exit(1);
  }
}

/// Waits for the numbers of all ranks, of which each gets the largest.
class Meeting {
 public:
  explicit Meeting(std::size_t ranks) : ranks_(ranks) {}

  std::uint64_t largest(std::uint64_t number) {
    std::unique_lock<std::mutex> lock(mutex_);
    next_ = std::max(next_, number);
    const auto round = round_;
    if (++here_ == ranks_) {
      last_ = next_;
      next_ = 0;
      here_ = 0;
      ++round_;
      changed_.notify_all();
    }
    check(changed_.wait_for(lock, std::chrono::seconds(10), [&] { return round_ != round; }),
          "all ranks make the same calls");
    return last_;
  }

 private:
  const std::size_t ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t here_ = 0;
  std::uint64_t round_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t last_ = 0;
};

/// Times of a rank: what an allreduce takes at least, and for each element.
struct Speed {
  std::int64_t least;
  std::int64_t each;  // thousandths of a nanosecond

  Nanoseconds of(std::uint64_t numel) const {
    return Nanoseconds(least + each * static_cast<std::int64_t>(numel) / 1000);
  }
};

struct Rank {
  Speed switchml;
  Speed gloo;
};

std::vector<Timing> measured(Meeting& meeting, const Rank& rank, Nanoseconds enough) {
  unsigned calls = 0;
  Crossover::Collectives collectives;
  collectives.switchml = [&](std::uint64_t numel) {
    // Now and then one takes long, also the first; a median does not see it.
    return rank.switchml.of(numel) * (++calls % 4 == 1 ? 1000 : 1);
  };
  collectives.gloo = [&](std::uint64_t numel) { return rank.gloo.of(numel); };
  collectives.largest = [&](std::uint64_t number) { return meeting.largest(number); };
  return Crossover::measure(collectives, enough);
}

void run(const std::vector<Rank>& ranks, Nanoseconds enough) {
  Meeting meeting(ranks.size());
  std::vector<std::vector<Timing>> found(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    threads.emplace_back([&, r] { found[r] = measured(meeting, ranks[r], enough); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (const auto& timings : found) {
    check(Crossover::json(timings) == Crossover::json(found[0]), "all ranks have the same times");
  }
  const auto number = Crossover::find(found[0]);
  std::printf("%zu sizes, from %s\n", found[0].size(),
              number == Crossover::kNever ? "none" : std::to_string(number).c_str());
}

}  // namespace

int main() {
  constexpr auto kLong = std::chrono::hours(1);
  const Speed quick{10'000, 1'000};
  const Speed late{50'000, 100};  // quicker from about 44,000 elements on
  run({{late, quick}, {late, quick}}, kLong);
  // The second rank alone would say never, the third always.
  run({{late, quick}, {late, {1'000, 10}}, {{1'000, 10}, quick}}, kLong);
  run({{quick, late}, {quick, late}}, kLong);
  run({{quick, {20'000, 2'000}}, {quick, {20'000, 2'000}}}, kLong);
  // The second rank is so slow that there is no more time after the third size.
  run({{late, quick}, {late, {30'000'000, 0}}}, std::chrono::milliseconds(900));
  run({{quick, late}}, std::chrono::milliseconds(0));
  return 0;
}
