/// The jobs of one allreduce, from their submission to their sums.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "sum/runtime.hpp"

namespace switchml_delegate {

/// A sum of `data` over all ranks, in place.
struct Sum {
  const char* what;
  void* data;
  std::uint64_t numel;
  Element element;
  std::shared_ptr<void> owner;   // keeps the memory for as long as the client library may use it
  std::function<void()> then{};  // called by finish(), with the sum
  bool overflowed = false;       // OverflowMarks may be in the data

  std::string name() const;
};

/// Sums without a sequence number, for the probe: nothing else uses the client library then. Throws
/// std::runtime_error if there is no sum within the limit.
void sumAlone(Library& library, const Sum& sum, std::chrono::milliseconds limit);

/// Limits of a call.
struct CallLimits {
  /// For all jobs of the call in the client library, from when the first was submitted and the jobs
  /// of earlier calls have ended. Those have limits of their own, and a failure ends them all.
  std::chrono::milliseconds library;
  /// For each message over Gloo, of a job that the client library did not finish. Used with
  /// failover.
  std::chrono::milliseconds message;
};

/// Submits the jobs of one call in the order of their sequence numbers, and finishes them in the
/// same order.
///
///   1. submit() waits for the turn of the next job, and gives it to the client library. With
///      failover the library writes to memory of Failover, so that the caller's keeps the values.
///   2. finish() waits for the oldest job. With failover, a job without a sum is summed over Gloo;
///      else the group fails.
///   3. If jobs are left, as after an exception, the destructor fails the group, because the other
///      ranks would wait for them. It waits until the context has stopped, or for
///      kStopAfterFailure, since the library may use the caller's memory until then.
///
/// The thread of the call uses it.
class PendingJobs {
 public:
  /// `sequence` is the number of the first of `jobs` jobs.
  PendingJobs(Runtime& runtime, const Delegation& group, std::uint64_t sequence, std::uint64_t jobs,
              CallLimits limits);
  ~PendingJobs();
  PendingJobs(const PendingJobs&) = delete;
  PendingJobs& operator=(const PendingJobs&) = delete;

  std::size_t size() const { return jobs_.size(); }

  /// True if a job was summed over Gloo.
  bool redone() const { return redone_; }

  /// Submits the next job. Waits without a limit of its own: for its turn, and with failover for
  /// memory. Each earlier job has a limit, and a failure ends the waits.
  void submit(Sum sum);

  /// Waits for the oldest job, and calls its `then` in this thread.
  void finish();

 private:
  struct Job {
    Sum sum;
    Library::JobPtr submitted{};  // null if the client library does not have it
  };
  // By their sequence numbers. Not a std::list: it has another layout in each ABI of the C++
  // library, and the linker would mix its functions with torch's.
  using JobsBySequence = std::map<std::uint64_t, Job>;

  static std::string nameOf(const JobsBySequence::value_type& job);

  /// Number of a job in its group.
  std::uint64_t numberOf(const JobsBySequence::value_type& job) const;

  /// Waits for the client library to sum. Returns true if the caller's memory has the sum, and
  /// false if it has to be redone.
  bool waitForSum(const JobsBySequence::value_type& job);

  /// Sums a job over Gloo.
  void redo(const JobsBySequence::value_type& job);

  Runtime& runtime_;
  const Delegation& group_;
  Failover* const failover_;
  const std::uint64_t first_;
  std::uint64_t next_;
  const std::uint64_t end_;
  const CallLimits limits_;
  bool redone_ = false;
  Library::Clock::time_point deadline_ = Library::Clock::time_point::max();
  JobsBySequence jobs_;
};

}  // namespace switchml_delegate
