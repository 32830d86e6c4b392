// Port: source and sink of frames.
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
  std::uint64_t no_room = 0;  // answers that the other end had no room for, or nobody was there
};

class Port {
 public:
  // Gets a frame and the queue that it came by; the bytes are valid during the call only, and
  // whoever sent them may change them meanwhile.
  using Taker = std::function<void(std::uint16_t, Bytes)>;

  virtual ~Port() = default;
  Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  virtual const std::string& name() const = 0;

  // How often somebody has gone away at the other end.
  virtual std::uint64_t departures() const = 0;

  // Takes some of what has arrived. True where there was anything.
  virtual bool Receive(const Taker& take) = 0;

  // Sends a frame in two parts. It may be kept back until Flush.
  virtual void Send(std::uint16_t queue, Bytes head, Bytes values) = 0;
  virtual void Flush() = 0;

  // Whether arrivals shall wake the poller.
  virtual void Wake(bool wanted) = 0;

  // Whether something waits to be sent that nothing will wake the poller for.
  virtual bool Pending() const = 0;

  // Called now and then: fixes what can be.
  virtual void Tend() = 0;

  const PortCounters& counters() const { return counters_; }

 protected:
  PortCounters counters_;
};

}  // namespace softswitch

#endif  // SOFTSWITCH_PORT_H_
