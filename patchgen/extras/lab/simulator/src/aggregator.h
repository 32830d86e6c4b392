// The aggregator, which replaces the switch: it sums the messages of the workers.
#ifndef SWITCHML_SRC_AGGREGATOR_H_
#define SWITCHML_SRC_AGGREGATOR_H_

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "counters.h"
#include "group.h"
#include "lobby.h"
#include "protocol.h"
#include "socket.h"

namespace switchml {

// Listens, and sums for one group of workers after another.
//
//   1. Run() waits with poll(2) for connections, messages and deadlines.
//   2. The lobby reads the hello of each new connection. Admit() adds the worker to the last group,
//      begins a new group if that has ended, or refuses the worker.
//   3. Each group reads its workers and sums: see Group.
//   4. Run() ends when `end` is readable, and delivers the answers that are queued.
//
// One thread makes it and calls Run(): that of AggregatorThread, or the main thread of serve.cc.
// There is no mutex.
class Aggregator {
 public:
  // In rank 0's process: for one group, whose workers must match `reference`. Throws LinkError.
  Aggregator(const Endpoint& endpoint, const Hello& reference);

  // In a process of its own: for one group after another, each of `num_workers`. Throws LinkError.
  Aggregator(const Endpoint& endpoint, uint16_t num_workers);

  Aggregator(const Aggregator&) = delete;
  Aggregator& operator=(const Aggregator&) = delete;

  // Port on which it listens.
  uint16_t port() const { return lobby_.port(); }

  // Serves until `end` is readable. Then delivers the queued answers, for a second at most, and
  // closes all connections. Throws LinkError if poll(2) fails.
  void Run(const Fd& end);

  const Counters& counters() const { return counters_; }

 private:
  Aggregator(const Endpoint& endpoint, uint16_t num_workers,
             std::chrono::milliseconds hello_timeout, bool standalone);

  // Waits for events, and reads everything that has arrived. False when `end` is readable.
  bool Serve(const Fd& end);
  void Admit(Lobby::Arrival arrival);
  void RemoveEmptyGroups();
  // Name of this aggregator in messages.
  std::string Name() const;

  const uint16_t num_workers_;
  const bool standalone_;  // in a process of its own, not in rank 0's
  Lobby lobby_;
  Counters counters_;
  std::vector<pollfd> entries_;                 // for poll(2)
  std::vector<std::unique_ptr<Group>> groups_;  // all but the last one have ended
};

}  // namespace switchml

#endif  // SWITCHML_SRC_AGGREGATOR_H_
