// The connections that have not sent a hello yet: workers that have just connected, and strangers
// such as port scanners.
#ifndef SWITCHML_SRC_LOBBY_H_
#define SWITCHML_SRC_LOBBY_H_

#include <poll.h>

#include <chrono>
#include <memory>
#include <vector>

#include "connection.h"
#include "protocol.h"
#include "socket.h"

namespace switchml {

// The way of a connection to its group:
//
//   1. Accepts connections, and reads their hello.
//   2. Hands over a connection with its hello: see Serve().
//   3. Closes a connection that sends anything else, or has sent no hello in time. Beyond the room
//      for all workers and 64 strangers, it closes the oldest one.
//
// Only the aggregator's thread calls it. There is no mutex.
class Lobby {
 public:
  // A connection that has sent its hello.
  struct Arrival {
    Hello hello;
    std::unique_ptr<Connection> connection;
  };

  // `workers`: how many may connect at once.
  Lobby(std::vector<Fd> listeners, std::chrono::milliseconds hello_timeout, size_t workers);

  uint16_t port() const { return LocalPort(listeners_[0]); }

  // Appends entries for poll(2).
  void Watch(std::vector<pollfd>& entries) const;

  // Serves the entries that Watch() appended. Returns the connections that have sent their hello.
  std::vector<Arrival> Serve(const pollfd* entries);

  // Time at which Serve() must be called at the latest.
  TimePoint NextDeadline() const;

 private:
  // False if the peer is not a worker.
  static bool ReadHello(Connection& connection);
  void AcceptAll(const Fd& listener);

  const std::vector<Fd> listeners_;
  const std::chrono::milliseconds hello_timeout_;
  const size_t most_waiting_;
  TimePoint accept_from_;  // later than now while descriptors or memory are short
  std::vector<std::unique_ptr<Connection>> waiting_;  // oldest first
};

}  // namespace switchml

#endif  // SWITCHML_SRC_LOBBY_H_
