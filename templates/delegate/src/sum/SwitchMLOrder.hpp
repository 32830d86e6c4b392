/// Order in which the jobs of this process go to the library.
///
/// SwitchML matches the jobs of the ranks by their order alone. So each job has a ticket, taken
/// where the call is made, and one ticket at a time has its turn, in the order of their numbers.
#pragma once

#include <condition_variable>

#include "base/SwitchMLVerdict.hpp"

namespace switchml_torch {

class Order {
 public:
  /// Takes tickets, and returns the first of them, or the next one where there are none. Lock-free.
  std::uint64_t take(std::uint64_t tickets) noexcept { return next_.fetch_add(tickets); }

  /// Returns when the ticket's turn has come, or the verdict is broken.
  void await(std::uint64_t ticket, const Verdict& verdict) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == ticket || verdict.broken(); });
  }

  /// Ends the turn that has been awaited.
  void pass() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++turn_;
    }
    changed_.notify_all();
  }

  /// Called when the verdict has changed.
  void wake() noexcept {
    { const std::lock_guard<std::mutex> lock(mutex_); }
    changed_.notify_all();
  }

  /// All tickets that have been taken are nobody's any more.
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

}  // namespace switchml_torch
