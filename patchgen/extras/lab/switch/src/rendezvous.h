// Callers of the controller that wait for each other.
#ifndef SOFTSWITCH_RENDEZVOUS_H_
#define SOFTSWITCH_RENDEZVOUS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "mutex.h"

namespace softswitch {

// Lets the callers of a group wait for each other and share one value.
//
//   1. Join() drops the callers of its group that have gone, and waits.
//   2. The last caller that a group wants gives all of them the same value, and they return kMet.
//   3. A caller returns earlier when it has gone, when its time is over, when its rank comes again,
//      or after Clear().
//
// Threads of gRPC call it, one for each caller. `mutex_` guards the groups and all waiters in them.
class Rendezvous {
 public:
  enum class Result { kMet, kGone, kLate, kRefused };

  struct Outcome {
    Result result;
    std::uint64_t value;  // of kMet
    std::string reason;   // of the other results
  };

  struct Caller {
    std::uint64_t group = 0;  // only callers of the same group meet
    std::size_t wanted = 0;   // number of callers that must meet
    std::optional<std::uint32_t> rank;
    std::optional<std::uint64_t> value;  // which all callers get; one of them has it
    std::function<bool()> gone;          // true once the caller does not wait any more
  };

  // Each caller waits for `limit` at most.
  explicit Rendezvous(std::chrono::milliseconds limit) : limit_(limit) {}

  // Waits until `wanted` callers wait at the same time.
  Outcome Join(const Caller& caller) LAB_EXCLUDES(mutex_);

  // Refuses the waiting callers of all groups except `group`.
  void Clear(std::uint64_t group, const std::string& reason) LAB_EXCLUDES(mutex_);

 private:
  struct Waiter {
    const Caller* caller;
    std::optional<Outcome> outcome;
  };
  using Waiters = std::list<Waiter*>;

  void Remove(std::uint64_t group, Waiter& waiter) LAB_REQUIRES(mutex_);

  const std::chrono::milliseconds limit_;
  lab::Mutex mutex_;
  lab::Condition changed_;  // a waiter has an outcome
  std::map<std::uint64_t, Waiters> groups_ LAB_GUARDED_BY(mutex_);
};

}  // namespace softswitch

#endif  // SOFTSWITCH_RENDEZVOUS_H_
