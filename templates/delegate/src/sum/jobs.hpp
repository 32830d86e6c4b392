/// The jobs that the client library has, and the memory that it may use for them.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.hpp"

namespace switchml_delegate {

/// Unfinished jobs of one start of the context, in the order in which they were submitted.
///
/// A job is here from before the client library has it until a thread has seen that it has
/// finished. Its memory is kept for as long, or until the context has stopped.
///
/// Threads of calls add jobs and wait for them; the library's threads end them, in any order. No
/// function calls the library.
class Jobs {
 public:
  using Clock = std::chrono::steady_clock;
  using Memory = std::array<std::shared_ptr<void>, 2>;  // of the values, and of their sums

  enum class End : std::uint8_t { kNone, kFinished, kFailed };

  explicit Jobs(std::uint64_t start) : epoch(start) {}

  /// Number of the start of the context.
  const std::uint64_t epoch;

  /// Adds a job; returns its number.
  std::uint64_t add(Memory memory) EXCLUDES(mutex_);

  /// Called once for each job, when it has finished or failed.
  void end(std::uint64_t job, End end) noexcept EXCLUDES(mutex_);

  /// Waits until all earlier jobs have ended; returns the time at which they had. After abort(),
  /// returns the present time. Without a limit of its own: each earlier job has one.
  Clock::time_point turn(std::uint64_t job) EXCLUDES(mutex_);

  /// Waits for the end of a job. Returns kNone at the deadline, after abort(), or when `isLost`,
  /// which is called every second, says that the job cannot end.
  End wait(std::uint64_t job, Clock::time_point deadline, const std::function<bool()>& isLost)
      EXCLUDES(mutex_);

  /// Ends all waits, now and later.
  void abort() noexcept EXCLUDES(mutex_);

  /// True if all jobs have finished: the client library's threads have nothing to do.
  bool idle() noexcept EXCLUDES(mutex_);

  /// Releases the memory of all jobs. Called after the context has stopped.
  void release() noexcept EXCLUDES(mutex_);

 private:
  struct Entry {
    std::uint64_t number;
    Memory memory;
    Clock::time_point turn;  // when all earlier jobs had ended; max() until then
    End end = End::kNone;
  };

  Entry* find(std::uint64_t job) REQUIRES(mutex_);
  /// The oldest job that has not ended, or null.
  Entry* oldest() REQUIRES(mutex_);

  Mutex mutex_;
  Condition changed_;
  // Not a std::list: it has another layout in each ABI of the C++ library, and the linker would mix
  // its functions with torch's.
  std::vector<Entry> entries_ GUARDED_BY(mutex_);
  std::uint64_t added_ GUARDED_BY(mutex_) = 0;
  bool aborted_ GUARDED_BY(mutex_) = false;
};

}  // namespace switchml_delegate
