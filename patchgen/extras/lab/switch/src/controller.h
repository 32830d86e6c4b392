// The controller of the switch: the gRPC services that client libraries call before they send
// packets.
#ifndef SOFTSWITCH_CONTROLLER_H_
#define SOFTSWITCH_CONTROLLER_H_

#include <chrono>
#include <memory>
#include <string>

#include "data_plane.h"

namespace softswitch {

// Requests of a client library before it sends packets:
//
//   1. The workers of a job exchange a session id: Sync.Broadcast.
//   2. Each worker joins the session: Session.UdpSession. Rank 0 begins it.
//   3. The workers wait for each other: Sync.Barrier. Then they send packets.
//
// The main thread makes and destroys it. Threads of gRPC, 256 at most, call the services.
class Controller {
 public:
  // Listens on `address`, as HOST:PORT. Callers wait for each other for `limit` at most. Throws
  // std::runtime_error.
  Controller(DataPlane& plane, const std::string& address, std::chrono::milliseconds limit);
  ~Controller();

  // HOST:PORT, with the port that the system chose for port 0.
  const std::string& address() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace softswitch

#endif  // SOFTSWITCH_CONTROLLER_H_
