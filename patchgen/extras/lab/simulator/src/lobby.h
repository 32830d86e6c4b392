// Connections that have not said who they are: port scanners, garbage, and workers for a moment.
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

class Lobby {
 public:
  struct Guest {
    Hello hello;
    std::unique_ptr<Connection> connection;
  };

  // A connection without a complete hello after `patience` is closed. `workers`: those that may
  // come at once.
  Lobby(std::vector<Fd> listeners, std::chrono::milliseconds patience, size_t workers);

  uint16_t port() const { return LocalPort(listeners_[0]); }

  // Appends what to poll for.
  void Watch(std::vector<pollfd>& entries) const;

  // Takes the entries that Watch() appended, and returns those who have said hello.
  std::vector<Guest> Serve(const pollfd* entries);

  // When Serve() must be called, at the latest.
  TimePoint NextDeadline() const;

 private:
  static bool ReadHello(Connection& connection);
  void AcceptAll(const Fd& listener);

  const std::vector<Fd> listeners_;
  const std::chrono::milliseconds patience_;
  const size_t most_waiting_;
  TimePoint accept_from_;
  std::vector<std::unique_ptr<Connection>> waiting_;  // oldest first
};

}  // namespace switchml

#endif  // SWITCHML_SRC_LOBBY_H_
