#include "rendezvous.h"

#include <utility>

namespace softswitch {
namespace {

// Interval in which a waiting caller is checked: there is no notification when it goes.
constexpr std::chrono::milliseconds kCheckInterval(20);

}  // namespace

void Rendezvous::Remove(std::uint64_t group, Waiter& waiter) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return;
  found->second.remove(&waiter);
  if (found->second.empty()) groups_.erase(found);
}

Rendezvous::Outcome Rendezvous::Join(const Caller& caller) {
  const auto deadline = std::chrono::steady_clock::now() + limit_;
  Waiter mine{&caller, std::nullopt};
  lab::MutexLock lock(mutex_);
  Waiters& waiters = groups_[caller.group];
  waiters.remove_if([](const Waiter* waiter) { return waiter->caller->gone(); });
  for (auto each = waiters.begin(); each != waiters.end();) {
    Waiter& waiter = **each;
    if (caller.rank && waiter.caller->rank == caller.rank) {
      waiter.outcome = {Result::kRefused, 0,
                        "rank " + std::to_string(*caller.rank) + " came again"};
      each = waiters.erase(each);
    } else if (waiter.caller->wanted != caller.wanted) {
      const std::string reason = "of " + std::to_string(caller.wanted) +
                                 " workers, while others of " +
                                 std::to_string(waiter.caller->wanted) + " wait";
      return {Result::kRefused, 0, reason};
    } else {
      ++each;
    }
  }
  waiters.push_back(&mine);

  if (waiters.size() == caller.wanted) {
    std::uint64_t value = 0;
    for (const Waiter* waiter : waiters) value = waiter->caller->value.value_or(value);
    for (Waiter* waiter : waiters) waiter->outcome = {Result::kMet, value, ""};
    groups_.erase(caller.group);
    changed_.NotifyAll();
    return *mine.outcome;
  }
  changed_.NotifyAll();
  while (!mine.outcome) {
    if (caller.gone()) {
      Remove(caller.group, mine);
      return {Result::kGone, 0, "the caller has gone"};
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      const std::string reason = std::to_string(groups_[caller.group].size()) + " of " +
                                 std::to_string(caller.wanted) + " workers came";
      Remove(caller.group, mine);
      return {Result::kLate, 0, reason};
    }
    changed_.WaitFor(lock, kCheckInterval);
  }
  return *mine.outcome;
}

void Rendezvous::Clear(std::uint64_t group, const std::string& reason) {
  const lab::MutexLock lock(mutex_);
  for (auto other = groups_.begin(); other != groups_.end();) {
    if (other->first == group) {
      ++other;
      continue;
    }
    for (Waiter* waiter : other->second) waiter->outcome = {Result::kRefused, 0, reason};
    other = groups_.erase(other);
  }
  changed_.NotifyAll();
}

}  // namespace softswitch
