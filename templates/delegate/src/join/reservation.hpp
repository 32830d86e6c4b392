/// Reservation of SwitchML in a process: for one process group at a time.
#pragma once

#include <atomic>
#include <cstdint>

namespace switchml_delegate {

/// A group that is made reserves SwitchML before it answers the other ranks, and releases it unless
/// it delegates; else its end does. Lock-free.
///
///     kFree ──▶ kBeingMade ──▶ kDelegating ──▶ kEnding ──▶ kFree
///                   └────────────────────────────────────────┘
class Reservation {
 public:
  enum class State : std::uint8_t { kFree, kBeingMade, kDelegating, kEnding };

  State state() const noexcept { return state_; }

  /// Reserves it if it is free. Returns the state before.
  State reserve() noexcept {
    auto found = State::kFree;
    state_.compare_exchange_strong(found, State::kBeingMade);
    return found;
  }

  /// Called by the owner: the group delegates, ends, or has ended.
  void delegate() noexcept { state_ = State::kDelegating; }
  void end() noexcept { state_ = State::kEnding; }
  void release() noexcept { state_ = State::kFree; }

 private:
  std::atomic<State> state_{State::kFree};
};

}  // namespace switchml_delegate
