#include "SwitchMLVerdict.hpp"

namespace switchml_torch {

bool Verdict::fail(const std::string& why, const std::function<void()>& say) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (broken()) {
    return false;
  }
  say();
  value_.set({Kind::kBroken, why, get().failure});
  return true;
}

void Verdict::suspend(const std::string& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  value_.set({broken() ? Kind::kBroken : Kind::kSuspended, broken() ? get().why : why, why});
}

void Verdict::resume() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!broken()) {
    value_.set({Kind::kDelegating, "", get().failure});
  }
}

void Verdict::renew() {
  const std::lock_guard<std::mutex> lock(mutex_);
  value_.set({Kind::kDelegating, "", get().failure});
}

}  // namespace switchml_torch
