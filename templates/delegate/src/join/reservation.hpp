/// Reservation of SwitchML in a process: for one process group at a time.
#pragma once

#include <atomic>
#include <cstdint>

namespace switchml_delegate {

/// Owner of SwitchML in this process. Any thread calls the functions, which are lock-free:
///
///   1. The thread that makes a group reserves SwitchML before it answers the other ranks.
///   2. The same thread calls delegate() if the ranks have agreed, else release().
///   3. The thread that ends a delegating group calls end(), and release() when the connections of
///      the group are released.
///
/// A group that finds another state than kFree refuses to delegate, and its ranks fall back to
/// Gloo. A forked child has a Reservation of its own, which is free.
///
///     kFree ──▶ kBeingMade ──▶ kDelegating ──▶ kEnding ──▶ kFree
///                   └────────────────────────────────────────┘
class Reservation {
 public:
  enum class State : std::uint8_t { kFree, kBeingMade, kDelegating, kEnding };

  State state() const noexcept { return state_; }

  /// Reserves SwitchML if it is free. Returns the state that it found.
  State reserve() noexcept {
    auto found = State::kFree;
    state_.compare_exchange_strong(found, State::kBeingMade);
    return found;
  }

  // Called for the group that has the reservation.
  void delegate() noexcept { state_ = State::kDelegating; }
  void end() noexcept { state_ = State::kEnding; }
  void release() noexcept { state_ = State::kFree; }

 private:
  std::atomic<State> state_{State::kFree};
};

}  // namespace switchml_delegate
