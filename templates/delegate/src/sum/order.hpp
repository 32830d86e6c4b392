/// Order in which the jobs of this process go to the library.
///
/// SwitchML matches the jobs of the ranks by their order alone. So each job has a sequence
/// number, taken where the call is made, and one job at a time has its turn, in their order.
#pragma once

#include <condition_variable>

#include "base/delegation_state.hpp"

namespace switchml_delegate {

class Order {
 public:
  /// Takes `count` numbers, and returns the first, or the next one for a count of 0. Lock-free.
  std::uint64_t take(std::uint64_t count) noexcept { return next_.fetch_add(count); }

  /// Returns when the turn of `sequence` has come, or the state is broken.
  void await(std::uint64_t sequence, const DelegationState& state) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == sequence || state.broken(); });
  }

  /// Ends the turn that has been awaited.
  void pass() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++turn_;
    }
    changed_.notify_all();
  }

  /// Called when the state has changed.
  void wake() noexcept {
    { const std::lock_guard<std::mutex> lock(mutex_); }
    changed_.notify_all();
  }

  /// All numbers that have been taken are nobody's any more.
  void skip() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    turn_ = next_;
  }

 private:
  std::atomic<std::uint64_t> next_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t turn_ = 0;
};

}  // namespace switchml_delegate
