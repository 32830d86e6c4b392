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

#include "base/quietly.hpp"

namespace switchml_delegate {

/// The newest of some values, which is read without a lock. Each value stays for good: a reader may
/// still look at it.
template <typename Value>
class Newest {
 public:
  const Value& get() const noexcept { return *newest_.load(std::memory_order_acquire); }
  void set(Value value) {
    auto* const link = new Link{std::move(value), kept_.load()};
    while (!kept_.compare_exchange_weak(link->earlier, link)) {
    }
    newest_.store(&link->value, std::memory_order_release);
  }

  /// Sets a value that the caller keeps for good.
  void refer(const Value& value) noexcept { newest_.store(&value, std::memory_order_release); }

 private:
  struct Link {
    Value value;
    const Link* earlier;
  };
  union Never {  // is destroyed: threads may outlive the destruction of statics
    Never() : value{} {}
    ~Never() {}
    Value value;
  };
  static inline const Never none_;
  std::atomic<const Value*> newest_{&none_.value};
  std::atomic<const Link*> kept_{nullptr};
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

  /// Breaks it. False where it was broken already. Without memory the reason is kOutOfMemory.
  bool fail(const std::string& why) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (broken()) {
      return false;
    }
    if (!quietly([&] { value_.set({Kind::kBroken, why, get().failure}); })) {
      value_.refer(unexplained_);
    }
    return true;
  }

  /// Called when the group goes on over Gloo. Breaks it where there is no memory.
  void suspend(const std::string& why) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool stays = broken();
    const bool noted = quietly([&] {
      value_.set({stays ? Kind::kBroken : Kind::kSuspended, stays ? get().why : why, why});
    });
    if (!noted && !stays) {
      value_.refer(unexplained_);
    }
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
  const Value unexplained_{Kind::kBroken, kOutOfMemory, ""};
  std::mutex mutex_;  // of those who change it
  Newest<Value> value_;
};

}  // namespace switchml_delegate
