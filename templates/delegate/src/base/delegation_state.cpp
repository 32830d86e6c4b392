#include "base/delegation_state.hpp"

namespace switchml_delegate {

DelegationState::DelegationState(const DelegationState* before) {
  if (before != nullptr) {
    value_.set(before->get());
  }
}

bool DelegationState::fail(const std::string& why) noexcept {
  const MutexLock lock(mutex_);
  if (broken()) {
    return false;
  }
  if (!quietly([&] { value_.set({Kind::kBroken, why, get().failure}); })) {
    value_.refer(unexplained_);
  }
  return true;
}

void DelegationState::suspend(const std::string& why) noexcept {
  const MutexLock lock(mutex_);
  const bool stays = broken();
  const bool noted = quietly([&] {
    value_.set({stays ? Kind::kBroken : Kind::kSuspended, stays ? get().why : why, why});
  });
  if (!noted && !stays) {
    value_.refer(unexplained_);
  }
}

void DelegationState::resume() {
  const MutexLock lock(mutex_);
  if (!broken()) {
    value_.set({Kind::kDelegating, "", get().failure});
  }
}

void DelegationState::renew() {
  const MutexLock lock(mutex_);
  value_.set({Kind::kDelegating, "", get().failure});
}

}  // namespace switchml_delegate
