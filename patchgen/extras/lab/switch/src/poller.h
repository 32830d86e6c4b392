// Waits for events of descriptors, with epoll(7).
#ifndef SOFTSWITCH_POLLER_H_
#define SOFTSWITCH_POLLER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>

#include "descriptor.h"

namespace softswitch {

// Only the thread of the data plane calls it. There is no mutex.
class Poller {
 public:
  using Action = std::function<void()>;

  // Throws std::runtime_error.
  Poller();

  // Calls `action`, which may be empty, at the events of the descriptor. Returns a name for
  // Remove(). Throws std::runtime_error if the system cannot poll another descriptor.
  std::uint64_t Add(const Descriptor& descriptor, std::uint32_t events, Action action);

  // Call this before the descriptor is closed.
  void Remove(const Descriptor& descriptor, std::uint64_t name);

  // Waits for an event, for `limit` at most, and calls the actions of all events that have come.
  void Wait(std::optional<std::chrono::milliseconds> limit);

 private:
  Descriptor epoll_;
  std::uint64_t next_ = 0;
  std::unordered_map<std::uint64_t, Action> actions_;
};

}  // namespace softswitch

#endif  // SOFTSWITCH_POLLER_H_
