/// Order in which the jobs of this process go to the client library.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/delegation_state.hpp"
#include "base/mutex.hpp"

namespace switchml_delegate {

/// Queue of sequence numbers. SwitchML matches the jobs of the ranks by their order alone. So each
/// job has a number, which is taken where the call is made, and jobs are submitted one at a time in
/// the order of their numbers.
///
/// Any thread may call any function; the thread that has the turn calls pass().
class Order {
 public:
  /// Returns the number that is taken next. Lock-free.
  std::uint64_t next() const noexcept { return next_; }

  /// Takes `count` numbers, and returns the first of them. Lock-free.
  std::uint64_t take(std::uint64_t count) noexcept { return next_.fetch_add(count); }

  /// Waits for the turn of `sequence`, or until the state is broken. Without a limit: each earlier
  /// call has one, and wake() ends the wait.
  void await(std::uint64_t sequence, const DelegationState& state) EXCLUDES(mutex_);

  /// Ends the turn of the caller.
  void pass() EXCLUDES(mutex_);

  /// Called when the state has changed.
  void wake() noexcept EXCLUDES(mutex_);

  /// Ends the turns of all numbers that have been taken, for a new group.
  void skip() noexcept EXCLUDES(mutex_);

 private:
  std::atomic<std::uint64_t> next_{0};
  Mutex mutex_;
  Condition changed_;
  std::uint64_t turn_ GUARDED_BY(mutex_) = 0;
};

}  // namespace switchml_delegate
