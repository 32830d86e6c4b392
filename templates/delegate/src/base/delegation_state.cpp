#include "base/delegation_state.hpp"

namespace switchml_delegate {

DelegationState::DelegationState(const DelegationState* parent) {
  if (parent != nullptr) {
    value_.set(parent->get());
  }
}

bool DelegationState::fail(const std::string& reason) noexcept {
  const MutexLock lock(mutex_);
  if (broken()) {
    return false;
  }
  if (!trySet(Kind::kBroken, reason, get().failure)) {
    value_.refer(unexplained_);
  }
  return true;
}

void DelegationState::suspend(const std::string& reason) noexcept {
  const MutexLock lock(mutex_);
  const bool stays = broken();
  const bool noted =
      trySet(stays ? Kind::kBroken : Kind::kSuspended, stays ? get().reason : reason, reason);
  if (!noted && !stays) {
    value_.refer(unexplained_);
  }
}

void DelegationState::resume() {
  const MutexLock lock(mutex_);
  if (!broken()) {
    set(Kind::kDelegating, "", get().failure);
  }
}

void DelegationState::renew() {
  const MutexLock lock(mutex_);
  set(Kind::kDelegating, "", get().failure);
}

void DelegationState::set(Kind kind, const std::string& reason, const std::string& failure) {
  value_.set({kind, reason, failure});
}

bool DelegationState::trySet(Kind kind, const std::string& reason,
                             const std::string& failure) noexcept {
  return quietly([&] { value_.set({kind, reason, failure}); });
}

}  // namespace switchml_delegate
