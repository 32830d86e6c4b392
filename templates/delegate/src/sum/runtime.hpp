/// The delegation of this process: its group, its context, and how a failure moves both.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/delegation_state.hpp"
#include "sum/delegation.hpp"
#include "sum/library.hpp"
#include "sum/order.hpp"

namespace switchml_delegate {

constexpr std::chrono::milliseconds kStopAfterFailure = std::chrono::seconds(1);
constexpr const char* kForked = "SwitchML was started before this process was forked";

/// The group that delegates, the state of the delegation, the context and the order of its jobs.
///
/// fail() takes these steps; without memory or a thread it takes them all the same, and only loses
/// the text of its message:
///
///   1. The state becomes broken, which every thread sees without a lock.
///   2. The successor is warned, in at most kHopLimit.
///   3. The context is stopped, which wakes the threads that wait for its jobs or for their turn.
///   4. The failure is printed.
///
/// Any thread may call any function. It has no lock of its own: its members have theirs.
class Runtime {
 public:
  /// `parent`: the Runtime of the process from which this one was forked, or null. Threads of that
  /// process may have held its locks, so only members without a lock are read.
  explicit Runtime(const Runtime* parent);

  /// The group that delegates, or null. It is never destroyed.
  const Delegation* group() const noexcept { return group_.load(std::memory_order_acquire); }

  /// The group that delegates if it owns this context, else null.
  const Delegation* groupOf(const void* context) const noexcept;

  /// Called by the thread that makes the group, when its ranks have agreed.
  void begin(Delegation group);

  /// Called when a group is made: ends the delegation of an inherited group whose context had the
  /// address of one of these. That context belongs to the process from which this one was forked.
  void disown(const std::vector<const void*>& contexts) noexcept;

  /// Ends the delegation of `group`. Returns false if it had ended.
  bool end(const Delegation* group) noexcept;

  /// Makes all calls fail from here on, unless the failure was of an earlier start of the context.
  void fail(const std::string& reason, std::uint64_t epoch) noexcept;
  void fail(const std::string& reason) noexcept { fail(reason, library.epoch()); }

  /// Fails the group: a sequence number was skipped, so the ranks' job order no longer matches.
  void abandon(std::uint64_t sequence) noexcept;

  /// Stops the context; its group falls back to Gloo.
  void suspend(const std::string& reason) noexcept;

  /// Called when the process exits: makes all calls fail, without a message or a warning.
  void close(const std::string& reason) noexcept;

  void throwIfBroken() const;

  /// Fails, and throws the reason of the first failure.
  [[noreturn]] void raise(const std::string& reason, std::uint64_t epoch);

  Library library;
  Order order;
  DelegationState state;
  std::atomic<std::uint64_t> waited;  // nanoseconds that calls have waited for their jobs

 private:
  /// Breaks the state, calls `end`, and stops the context. In this order: a thread that the stop
  /// wakes would report another reason. Returns false if the state was broken before.
  bool disable(const std::string& reason, std::uint64_t epoch,
               void (Failover::*end)(const std::string&)) noexcept;

  std::atomic<const Delegation*> group_;
  AtomicSnapshot<Delegation> groups_;
};

}  // namespace switchml_delegate
