// The jobs of one start of the context: their turns, their ends, and for how long their memory is
// kept. Prints ok.
#include "sum/jobs.hpp"

#include <cstdio>
#include <future>
#include <memory>
#include <string>

#include "check.hpp"

namespace {

using switchml_delegate::Jobs;
using End = Jobs::End;

const auto kNever = [] { return false; };
const auto kLost = [] { return true; };

/// A job, and a view of its memory.
struct Made {
  explicit Made(Jobs& jobs) {
    const auto memory = std::make_shared<int>(0);
    watched = memory;
    number = jobs.add({memory, memory});
  }

  std::uint64_t number;
  std::weak_ptr<int> watched;
};

Jobs::Clock::time_point soon() { return Jobs::Clock::now() + kEnough; }

/// Ends come in another order than the jobs.
void testOrder() {
  Jobs jobs(1);
  const Made first(jobs);
  const Made second(jobs);
  const Made third(jobs);
  auto turn = std::async(std::launch::async, [&] { return jobs.turn(third.number); });
  check(jobs.turn(first.number) <= Jobs::Clock::now(), "nothing is before the first job");
  jobs.end(second.number, End::kFinished);
  check(jobs.wait(second.number, soon(), kNever) == End::kFinished, "the end of the second job");
  check(second.watched.expired() && !first.watched.expired(), "the memory of the second job");
  check(!jobs.idle(), "jobs are under way");
  const auto before = Jobs::Clock::now();
  jobs.end(first.number, End::kFinished);
  check(turn.get() >= before, "the turn of the third job comes with the last end before it");
  jobs.end(third.number, End::kFinished);
  check(jobs.idle(), "all have finished");
  for (const auto* const job : {&first, &third}) {
    check(jobs.wait(job->number, soon(), kNever) == End::kFinished, "an end that was before");
    check(job->watched.expired(), "the memory of a finished job");
  }
}

/// A wait ends at its deadline, if the job is lost, and after abort(). The memory stays.
void testWaits() {
  Jobs jobs(1);
  const Made job(jobs);
  const Made behind(jobs);
  check(jobs.wait(job.number, Jobs::Clock::now(), kNever) == End::kNone, "the deadline");
  check(jobs.wait(job.number, soon(), kLost) == End::kNone, "a lost job");
  auto waiting =
      std::async(std::launch::async, [&] { return jobs.wait(job.number, soon(), kNever); });
  auto turn = std::async(std::launch::async, [&] { return jobs.turn(behind.number); });
  jobs.abort();
  check(waiting.get() == End::kNone && turn.get() <= Jobs::Clock::now(), "aborted");
  check(!job.watched.expired() && !jobs.idle(), "the library may still use the memory");
  jobs.release();
  check(job.watched.expired() && behind.watched.expired(), "the context has stopped");
}

/// A job that has failed is kept until the context has stopped; an end is known after that.
void testFailures() {
  Jobs jobs(1);
  const Made failed(jobs);
  const Made finished(jobs);
  jobs.end(failed.number, End::kFailed);
  jobs.end(finished.number, End::kFinished);
  check(jobs.wait(failed.number, soon(), kNever) == End::kFailed, "the failure");
  check(!failed.watched.expired() && !jobs.idle(), "the library may still use the memory");
  jobs.abort();
  jobs.release();
  check(failed.watched.expired() && finished.watched.expired(), "the context has stopped");
  check(jobs.wait(finished.number, soon(), kNever) == End::kFinished, "a job before the stop");
}

}  // namespace

int main() {
  testOrder();
  testWaits();
  testFailures();
  std::puts("ok");
}
