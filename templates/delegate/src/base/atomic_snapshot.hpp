/// The latest of some values, which readers take without a lock.
#pragma once

#include <atomic>
#include <utility>

namespace switchml_delegate {

/// One atomic pointer to an immutable value. Any thread may read and set it at any time. Values are
/// never freed, because a reader may still look at an earlier one: set few.
template <typename Value>
class AtomicSnapshot {
 public:
  const Value& get() const noexcept { return *latest_.load(std::memory_order_acquire); }

  void set(Value value) {
    auto* const link = new Link{std::move(value), kept_.load()};
    while (!kept_.compare_exchange_weak(link->earlier, link)) {
    }
    latest_.store(&link->value, std::memory_order_release);
  }

  /// Sets a value that the caller never frees. Needs no memory.
  void refer(const Value& value) noexcept { latest_.store(&value, std::memory_order_release); }

 private:
  struct Link {
    Value value;
    const Link* earlier;
  };
  union NeverDestroyed {  // threads may outlive the destruction of statics
    NeverDestroyed() : value{} {}
    ~NeverDestroyed() {}
    Value value;
  };
  static inline const NeverDestroyed none_;
  std::atomic<const Value*> latest_{&none_.value};
  std::atomic<const Link*> kept_{nullptr};
};

}  // namespace switchml_delegate
