// The shared memory of one memif client: its regions and rings.
#ifndef SOFTSWITCH_MEMIF_LINK_H_
#define SOFTSWITCH_MEMIF_LINK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "bytes.h"
#include "descriptor.h"
#include "frame.h"
#include "memif.h"
#include "port.h"

namespace softswitch {

// The client broke the protocol. The client gets the message.
class MemifFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The client may write anything into the memory at any time. So each index, offset and length is
// read once, checked, and then used: nothing outside of the memory is read or written. Only the
// thread of the data plane calls it.
class MemifLink {
 public:
  static constexpr std::size_t kMaxRegions = 4;
  static constexpr std::size_t kMaxRings = 32;  // in each direction
  static constexpr unsigned kMaxLog2Slots = 14;

  // Takes a region or a ring that the client offers. Throws MemifFault.
  void AddRegion(const memif::AddRegion& offer, Descriptor file);
  void AddRing(const memif::AddRing& offer, Descriptor interrupt);
  // Checks and maps the rings, when the client has offered all. Throws MemifFault.
  void Finish();

  std::size_t queues() const { return to_server_.size(); }
  const Descriptor& interrupt(std::size_t queue) const { return to_server_[queue].interrupt; }

  // Takes at most a batch of frames of each queue. False if there was none. Throws MemifFault.
  bool Receive(const Port::Taker& take, PortCounters& counters);
  // As Port::Send(). Throws MemifFault.
  void Send(std::uint16_t queue, Bytes head, Bytes values, PortCounters& counters);
  void Flush(PortCounters& counters);
  void Wake(bool wanted);
  bool Pending() const;

 private:
  struct Ring {
    Descriptor interrupt;
    memif::AddRing offer{};
    memif::Ring* ring = nullptr;
    std::uint8_t* slots = nullptr;
    std::uint16_t count = 0;
    std::uint16_t at = 0;             // the first slot that the server has not used
    std::uint16_t published = 0;      // the first used slot that the client does not know of
    std::vector<std::uint8_t> parts;  // of a frame whose end has not arrived
    std::deque<std::vector<std::uint8_t>> backlog;  // frames that wait for room
  };

  static memif::Slot SlotAt(const Ring& ring, std::uint16_t at);
  static std::uint16_t Offered(const Ring& ring);
  Bytes Room(const memif::Slot& slot) const;
  bool ReceiveFrom(Ring& ring, std::uint16_t queue, const Port::Taker& take,
                   PortCounters& counters);
  bool Put(Ring& ring, Bytes head, Bytes values);

  std::vector<Mapping> regions_;
  std::vector<Ring> to_server_;
  std::vector<Ring> to_client_;
};

}  // namespace softswitch

#endif  // SOFTSWITCH_MEMIF_LINK_H_
