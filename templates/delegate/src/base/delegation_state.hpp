/// State of the delegation in this process.
#pragma once

#include <cstdint>
#include <string>

#include "base/atomic_snapshot.hpp"
#include "base/mutex.hpp"
#include "base/quietly.hpp"

namespace switchml_delegate {

/// Whether the group that has SwitchML delegates, goes on over Gloo, or fails:
///
///     kDelegating ◀──▶ kSuspended
///          └───────────────┴──▶ kBroken ──▶ kDelegating, for the ranks of a new group
///
/// Any thread may call it. A reader takes no lock, and gets a value whose members belong together.
class DelegationState {
 public:
  enum class Kind : std::uint8_t { kDelegating, kSuspended, kBroken };
  struct Value {
    Kind kind = Kind::kDelegating;
    std::string reason;   // of the suspended or broken state
    std::string failure;  // the newest one after which a group went over Gloo
  };

  /// `parent`: the state of the process from which this one was forked, or null.
  explicit DelegationState(const DelegationState* parent);

  const Value& get() const noexcept { return value_.get(); }
  bool broken() const noexcept { return get().kind == Kind::kBroken; }

  /// Enters kBroken. Returns false if it was broken already. Without memory the reason is
  /// kOutOfMemory.
  bool fail(const std::string& reason) noexcept EXCLUDES(mutex_);

  /// Enters kSuspended, or kBroken if there is no memory. A broken state stays.
  void suspend(const std::string& reason) noexcept EXCLUDES(mutex_);

  /// Enters kDelegating when a suspended group has returned. A broken state stays.
  void resume() EXCLUDES(mutex_);

  /// Enters kDelegating when the ranks of a new group are about to start the context anew.
  void renew() EXCLUDES(mutex_);

 private:
  void set(Kind kind, const std::string& reason, const std::string& failure) REQUIRES(mutex_);

  /// Returns false, and sets nothing, if there is no memory.
  bool trySet(Kind kind, const std::string& reason, const std::string& failure) noexcept
      REQUIRES(mutex_);

  const Value unexplained_{Kind::kBroken, kOutOfMemory, ""};
  Mutex mutex_;                  // held by writers from their read of the value to their write
  AtomicSnapshot<Value> value_;  // readers hold no mutex
};

}  // namespace switchml_delegate
