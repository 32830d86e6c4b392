#include "SwitchMLOrder.hpp"

namespace switchml_torch {

void Order::await(std::uint64_t ticket, const Verdict& verdict) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return turn_ == ticket || verdict.broken(); });
}

void Order::pass() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++turn_;
  }
  changed_.notify_all();
}

void Order::wake() noexcept {
  { const std::lock_guard<std::mutex> lock(mutex_); }
  changed_.notify_all();
}

void Order::skip() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  turn_ = next_;
}

}  // namespace switchml_torch
