// The switch: it sums what the workers send.
#ifndef SWITCHML_SRC_AGGREGATOR_H_
#define SWITCHML_SRC_AGGREGATOR_H_

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "group.h"
#include "lobby.h"
#include "protocol.h"
#include "socket.h"
#include "tally.h"

namespace switchml {

class Aggregator {
 public:
  // In rank 0's process: for one group, whose workers are compared with `reference`. Throws
  // LinkError.
  Aggregator(const Endpoint& endpoint, const Hello& reference);

  // In a process of its own: for one group after another of so many workers. Throws LinkError.
  Aggregator(const Endpoint& endpoint, uint16_t num_workers);

  Aggregator(const Aggregator&) = delete;
  Aggregator& operator=(const Aggregator&) = delete;

  // Where it listens.
  uint16_t port() const { return lobby_.port(); }

  // Serves until `end` is readable, delivers what is queued, for a second at most, and closes all
  // connections. Throws where the system has no room.
  void Run(const Fd& end);

  const Tally& tally() const { return tally_; }

 private:
  Aggregator(const Endpoint& endpoint, uint16_t num_workers, std::chrono::milliseconds patience,
             bool alone);

  bool Serve(const Fd& end);
  void Admit(Lobby::Guest guest);
  void ForgetThoseGone();
  std::string Name() const;

  const uint16_t num_workers_;
  const bool alone_;  // in a process of its own
  Lobby lobby_;
  Tally tally_;
  std::vector<pollfd> entries_;                 // what it waits for
  std::vector<std::unique_ptr<Group>> groups_;  // only the last one may not be over
};

}  // namespace switchml

#endif  // SWITCHML_SRC_AGGREGATOR_H_
