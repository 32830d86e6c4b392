// The interface of a port: source and destination of frames.
#ifndef SOFTSWITCH_PORT_H_
#define SOFTSWITCH_PORT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "bytes.h"

namespace softswitch {

struct PortCounters {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
  std::uint64_t no_room = 0;  // answers that were dropped: no room at the other end, or no client
};

// Only the thread of the data plane calls it. There is no mutex.
class Port {
 public:
  // Takes a frame and the number of its queue. The bytes are valid only during the call, and their
  // sender may change them meanwhile.
  using Taker = std::function<void(std::uint16_t, Bytes)>;

  virtual ~Port() = default;
  Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  virtual const std::string& name() const = 0;

  // Number of times that the other end has disconnected.
  virtual std::uint64_t departures() const = 0;

  // Takes some of the frames that have arrived. False if there was none.
  virtual bool Receive(const Taker& take) = 0;

  // Sends a frame, given in two parts. The port may keep it until Flush().
  virtual void Send(std::uint16_t queue, Bytes head, Bytes values) = 0;
  virtual void Flush() = 0;

  // Sets whether frames that arrive wake the poller.
  virtual void Wake(bool wanted) = 0;

  // True if frames wait to be sent, and no event will wake the poller for them.
  virtual bool Pending() const = 0;

  // Called twice a second, for instance to open a lost interface again.
  virtual void Tend() = 0;

  const PortCounters& counters() const { return counters_; }

 protected:
  PortCounters counters_;
};

}  // namespace softswitch

#endif  // SOFTSWITCH_PORT_H_
