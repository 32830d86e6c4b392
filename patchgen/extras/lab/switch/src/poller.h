// Waits for descriptors. One thread.
#ifndef SOFTSWITCH_POLLER_H_
#define SOFTSWITCH_POLLER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>

#include "descriptor.h"

namespace softswitch {

class Poller {
 public:
  using Action = std::function<void()>;

  // Throws std::runtime_error.
  Poller();

  // Does `action` when `descriptor` is ready, as `events` of epoll(7) say; the action may be
  // empty. Returns a name for Remove. Throws std::runtime_error where the system has no room.
  std::uint64_t Add(const Descriptor& descriptor, std::uint32_t events, Action action);

  // To be called before the descriptor is closed.
  void Remove(const Descriptor& descriptor, std::uint64_t name);

  // Waits at most so long, or until something is ready.
  void Wait(std::optional<std::chrono::milliseconds> limit);

 private:
  Descriptor epoll_;
  std::uint64_t next_ = 0;
  std::unordered_map<std::uint64_t, Action> actions_;
};

}  // namespace softswitch

#endif  // SOFTSWITCH_POLLER_H_
