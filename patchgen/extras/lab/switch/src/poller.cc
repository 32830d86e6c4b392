#include "poller.h"

#include <sys/epoll.h>

#include <array>
#include <stdexcept>
#include <utility>

namespace softswitch {

Poller::Poller() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw std::runtime_error(Failure("epoll_create1"));
}

std::uint64_t Poller::Add(const Descriptor& descriptor, std::uint32_t events, Action action) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = next_;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor.get(), &event) != 0) {
    throw std::runtime_error(Failure("the switch cannot poll another descriptor"));
  }
  actions_.emplace(next_, std::move(action));
  return next_++;
}

void Poller::Remove(const Descriptor& descriptor, std::uint64_t name) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor.get(), nullptr);
  actions_.erase(name);
}

void Poller::Wait(std::optional<std::chrono::milliseconds> limit) {
  std::array<epoll_event, 32> events{};
  const int milliseconds = limit ? static_cast<int>(limit->count()) : -1;
  const int found = epoll_wait(epoll_.get(), events.data(), events.size(), milliseconds);
  for (int at = 0; at < found; ++at) {
    // A copy, because the structure is packed. An earlier action may have removed this one.
    const std::uint64_t name = events[static_cast<std::size_t>(at)].data.u64;
    const auto known = actions_.find(name);
    if (known == actions_.end() || !known->second) continue;
    const Action action = known->second;
    action();
  }
}

}  // namespace softswitch
