// The format of the frames between client libraries and switch.
#ifndef SOFTSWITCH_FRAME_H_
#define SOFTSWITCH_FRAME_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "bytes.h"

namespace softswitch {

constexpr std::size_t kHeadBytes = 52;  // Ethernet, IPv4, UDP, SwitchML, exponents
constexpr std::size_t kMaxElements = 256;
constexpr std::size_t kMaxFrame = kHeadBytes + 4 * kMaxElements;

// Addresses as integers whose highest octet comes first on the wire.
struct Address {
  std::uint64_t mac;
  std::uint32_t ip;
};

// The switch's own: a locally administered MAC, and an IP of the network for benchmarks.
constexpr Address kSwitch = {0x02534d4c0001, 0xc613fffe};

// Elements of a packet, by the size number in its header; 0 if the switch does not sum that size.
constexpr std::size_t ElementsOf(unsigned size) { return size == 1 ? 64 : size == 3 ? 256 : 0; }

// Content of a packet. `values` are in the frame.
struct Packet {
  std::uint8_t size;  // number in the header
  std::uint8_t job;
  std::array<std::uint8_t, 4> id;  // opaque
  std::uint16_t pool;              // the slot, and in the highest bit the set
  std::array<std::int8_t, 2> exponents;
  std::uint16_t source;
  std::uint16_t destination;
  const std::uint8_t* values;
};

// True for UDP over IPv4 to the switch, on a port that it listens on.
bool ForSwitch(Bytes frame);

// The sender of a frame for which ForSwitch() is true.
Address Sender(Bytes frame);

// Parses a frame for which ForSwitch() is true. False if it is not a packet of `elements` elements.
bool Read(Bytes frame, std::size_t elements, Packet& packet);

// Headers of an answer, which are addressed to one worker after another.
class Head {
 public:
  Head() = default;

  // For the sum of a packet: `values` are the values of the answer.
  Head(const Packet& packet, std::array<std::int8_t, 2> exponents, Bytes values);

  // Addresses the answer. Valid until the next call.
  Bytes To(const Address& worker);

 private:
  std::array<std::uint8_t, kHeadBytes> head_{};
  std::uint64_t ip_sum_ = 0;   // of the headers that do not depend on the worker
  std::uint64_t udp_sum_ = 0;  // likewise
};

}  // namespace softswitch

#endif  // SOFTSWITCH_FRAME_H_
