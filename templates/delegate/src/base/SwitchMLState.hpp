/// State of the delegation in this process: its group delegates, goes on over Gloo, or fails.
///
/// A state is one immutable value behind one atomic pointer: whoever reads it takes no lock, and
/// gets facts of one moment. A broken one stays until the ranks of a new group renew it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

namespace switchml_torch {

/// The newest of some values, which is read without a lock. Each value stays for good: a reader may
/// still look at it.
template <typename Value>
class Newest {
 public:
  const Value& get() const noexcept {
    static const auto& none = *new Value{};
    const auto* const link = link_.load(std::memory_order_acquire);
    return link == nullptr ? none : link->value;
  }
  void set(Value value) {
    auto* const link = new Link{std::move(value), link_.load()};
    while (!link_.compare_exchange_weak(link->earlier, link, std::memory_order_release)) {
    }
  }

 private:
  struct Link {
    Value value;
    const Link* earlier;
  };
  std::atomic<const Link*> link_{nullptr};
};

class DelegationState {
 public:
  enum class Kind : std::uint8_t { kDelegating, kSuspended, kBroken };
  struct Value {
    Kind kind = Kind::kDelegating;
    std::string why;      // it is suspended or broken
    std::string failure;  // the newest after which a group went over Gloo
  };

  explicit DelegationState(const DelegationState* before) {
    if (before != nullptr) {
      value_.set(before->get());
    }
  }

  const Value& get() const noexcept { return value_.get(); }
  bool broken() const noexcept { return get().kind == Kind::kBroken; }

  /// Breaks it. False where it was broken already.
  bool fail(const std::string& why) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (broken()) {
      return false;
    }
    value_.set({Kind::kBroken, why, get().failure});
    return true;
  }

  /// Called when the group goes on over Gloo.
  void suspend(const std::string& why) {
    const std::lock_guard<std::mutex> lock(mutex_);
    value_.set({broken() ? Kind::kBroken : Kind::kSuspended, broken() ? get().why : why, why});
  }

  /// Called when the group has returned. A broken state stays.
  void resume() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!broken()) {
      value_.set({Kind::kDelegating, "", get().failure});
    }
  }

  /// Forgets the failure of an earlier group, whose context is about to be started anew.
  void renew() {
    const std::lock_guard<std::mutex> lock(mutex_);
    value_.set({Kind::kDelegating, "", get().failure});
  }

 private:
  std::mutex mutex_;  // of those who change it
  Newest<Value> value_;
};

}  // namespace switchml_torch
