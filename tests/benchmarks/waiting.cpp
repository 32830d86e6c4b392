// How late a wait for jobs of the client library returns, and what it costs: waiting JOBS.
//
// Jobs of 3 to 20 ms end one after the other, on a thread that notes when. Prints for each way of
// waiting the median lateness and the CPU time of each job, without that thread's, in microseconds:
// the delegate's wait with a limit, the library's own without one, and polling after an eighth of
// the time waited so far, at most a millisecond.
#include <switchml/context.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "SwitchMLJobs.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;
using JobPtr = std::shared_ptr<switchml::Job>;

double cpuMicroseconds(clockid_t clock) {
  timespec used{};
  clock_gettime(clock, &used);
  return 1e6 * static_cast<double>(used.tv_sec) + 1e-3 * static_cast<double>(used.tv_nsec);
}

void poll(switchml::Job& job) {
  const auto start = Clock::now();
  while (job.GetJobStatus() != switchml::FINISHED) {
    const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
    if (waited < std::chrono::microseconds(200)) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(
          std::min<std::chrono::microseconds>(waited / 8, std::chrono::milliseconds(1)));
    }
  }
}

void measure(const char* name, int jobs, const std::function<void(const JobPtr&)>& wait) {
  std::vector<double> late;
  double cpu = 0;
  for (int i = 0; i < jobs; ++i) {
    switchml::ExtraJobInfo extra;
    extra.allreduce_operation = switchml::SUM;
    const auto job = std::make_shared<switchml::Job>(
        switchml::Tensor{nullptr, nullptr, 0, switchml::INT32}, switchml::ALLREDUCE, extra);
    Clock::time_point ended;
    const double before = cpuMicroseconds(CLOCK_PROCESS_CPUTIME_ID);
    std::thread library([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(3 + i * 7 % 18));
      ended = Clock::now();
      job->SetJobStatus(switchml::FINISHED);
      cpu -= cpuMicroseconds(CLOCK_THREAD_CPUTIME_ID);
    });
    wait(job);
    const auto now = Clock::now();
    library.join();
    late.push_back(Microseconds(now - ended).count());
    cpu += cpuMicroseconds(CLOCK_PROCESS_CPUTIME_ID) - before;
  }
  std::nth_element(late.begin(), late.begin() + jobs / 2, late.end());
  std::printf("%s %.1f %.1f\n", name, late[jobs / 2], cpu / jobs);
}

}  // namespace

int main(int argc, char** argv) {
  const int jobs = argc == 2 ? std::atoi(argv[1]) : 100;
  static auto* const delegate = new switchml_torch::Jobs;
  delegate->start();
  measure("delegate", jobs, [](const JobPtr& job) {
    const auto entry = std::make_shared<switchml_torch::Jobs::Entry>();
    delegate->add(entry, job);
    delegate->wait(*entry, Clock::now() + std::chrono::minutes(30));
  });
  measure("library", jobs, [](const JobPtr& job) { job->WaitToComplete(); });
  measure("polled", jobs, [](const JobPtr& job) { poll(*job); });
  return 0;
}
