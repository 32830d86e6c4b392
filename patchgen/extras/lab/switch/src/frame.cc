#include "frame.h"

#include <cstring>

#include "sum.h"

namespace softswitch {
namespace {

constexpr std::size_t kIp = 14;
constexpr std::size_t kUdp = 34;
constexpr std::size_t kSwitchMl = 42;
constexpr std::size_t kValues = kHeadBytes;

constexpr std::uint16_t kIpv4 = 0x0800;
constexpr std::uint8_t kVersionAndLength = 0x45;
constexpr std::uint8_t kHops = 64;
constexpr std::uint8_t kUdpProtocol = 17;
constexpr std::uint16_t kPort = 0xbee0;
constexpr std::uint16_t kPortMask = 0xfff0;
constexpr std::uint8_t kType = 1;

std::uint16_t Folded(std::uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

// Sum of the words of an address in network order.
std::uint64_t WordsOf(std::uint32_t ip) {
  std::array<std::uint8_t, 4> octets{};
  StoreBig<4>(octets.data(), ip);
  return SumWords(octets.data(), octets.size());
}

}  // namespace

bool ForSwitch(Bytes frame) {
  if (frame.size < kSwitchMl) return false;
  const std::uint8_t* data = frame.data;
  return LoadBig<6>(data) == kSwitch.mac && LoadBig<2>(data + 12) == kIpv4 &&
         data[kIp] == kVersionAndLength && data[kIp + 9] == kUdpProtocol &&
         LoadBig<4>(data + kIp + 16) == kSwitch.ip &&
         (LoadBig<2>(data + kUdp + 2) & kPortMask) == kPort;
}

Address Sender(Bytes frame) {
  return {LoadBig<6>(frame.data + 6),
          static_cast<std::uint32_t>(LoadBig<4>(frame.data + kIp + 12))};
}

bool Read(Bytes frame, std::size_t elements, Packet& packet) {
  const std::size_t bytes = 4 * elements;
  if (elements == 0 || frame.size != kHeadBytes + bytes) return false;
  const std::uint8_t* data = frame.data;
  const std::uint8_t* own = data + kSwitchMl;
  if (LoadBig<2>(data + kIp + 2) != frame.size - kIp) return false;
  if (LoadBig<2>(data + kUdp + 4) != frame.size - kUdp) return false;
  if (own[0] >> 4 != kType || ElementsOf(own[0] & 7) != elements) return false;
  packet.size = own[0] & 7;
  packet.job = own[1];
  std::memcpy(packet.id.data(), own + 2, packet.id.size());
  packet.pool = static_cast<std::uint16_t>(LoadBig<2>(own + 6));
  packet.exponents = {static_cast<std::int8_t>(own[8]), static_cast<std::int8_t>(own[9])};
  packet.source = static_cast<std::uint16_t>(LoadBig<2>(data + kUdp));
  packet.destination = static_cast<std::uint16_t>(LoadBig<2>(data + kUdp + 2));
  packet.values = data + kValues;
  return true;
}

Head::Head(const Packet& packet, std::array<std::int8_t, 2> exponents, Bytes values) {
  std::uint8_t* head = head_.data();
  StoreBig<6>(head + 6, kSwitch.mac);
  StoreBig<2>(head + 12, kIpv4);

  head[kIp] = kVersionAndLength;
  StoreBig<2>(head + kIp + 2, kHeadBytes + values.size - kIp);
  head[kIp + 8] = kHops;
  head[kIp + 9] = kUdpProtocol;
  StoreBig<4>(head + kIp + 12, kSwitch.ip);

  StoreBig<2>(head + kUdp, packet.destination);
  StoreBig<2>(head + kUdp + 2, packet.source);
  StoreBig<2>(head + kUdp + 4, kHeadBytes + values.size - kUdp);

  std::uint8_t* own = head + kSwitchMl;
  own[0] = static_cast<std::uint8_t>(kType << 4 | packet.size);
  own[1] = packet.job;
  std::memcpy(own + 2, packet.id.data(), packet.id.size());
  StoreBig<2>(own + 6, packet.pool);
  own[8] = static_cast<std::uint8_t>(exponents[0]);
  own[9] = static_cast<std::uint8_t>(exponents[1]);

  ip_sum_ = SumWords(head + kIp, kUdp - kIp);
  // UDP's checksum covers both addresses, the protocol and, once more, the length.
  std::array<std::uint8_t, 4> pseudo = {0, kUdpProtocol, head[kUdp + 4], head[kUdp + 5]};
  udp_sum_ = SumWords(head + kUdp, kHeadBytes - kUdp) + WordsOf(kSwitch.ip) +
             SumWords(pseudo.data(), pseudo.size()) + SumWords(values.data, values.size);
}

Bytes Head::To(const Address& worker) {
  std::uint8_t* head = head_.data();
  StoreBig<6>(head, worker.mac);
  StoreBig<4>(head + kIp + 16, worker.ip);
  const std::uint64_t words = WordsOf(worker.ip);
  const std::uint16_t ip = Folded(ip_sum_ + words);
  std::uint16_t udp = Folded(udp_sum_ + words);
  if (udp == 0) udp = 0xffff;  // 0 would mean that there is no checksum
  std::memcpy(head + kIp + 10, &ip, 2);
  std::memcpy(head + kUdp + 6, &udp, 2);
  return {head, head_.size()};
}

}  // namespace softswitch
