#include "sum/order.hpp"

namespace switchml_delegate {

void Order::await(std::uint64_t sequence, const DelegationState& state) {
  MutexLock lock(mutex_);
  changed_.wait(lock, [&]() REQUIRES(mutex_) { return turn_ == sequence || state.broken(); });
}

void Order::pass() {
  {
    const MutexLock lock(mutex_);
    ++turn_;
  }
  changed_.notify_all();
}

void Order::wake() noexcept {
  { const MutexLock lock(mutex_); }  // so that no thread is between its predicate and its wait
  changed_.notify_all();
}

void Order::skip() noexcept {
  const MutexLock lock(mutex_);
  turn_ = next_;
}

}  // namespace switchml_delegate
