#include "packet_port.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "log.h"

namespace softswitch {
namespace {

constexpr int kBuffer = 8 << 20;  // bytes of each direction

void Enlarge(const Descriptor& socket, int forced, int allowed) {
  if (setsockopt(socket.get(), SOL_SOCKET, forced, &kBuffer, sizeof kBuffer) != 0) {
    setsockopt(socket.get(), SOL_SOCKET, allowed, &kBuffer, sizeof kBuffer);
  }
}

}  // namespace

PacketPort::PacketPort(Poller& poller, const std::string& interface)
    : poller_(poller),
      interface_(interface),
      name_("packet:" + interface),
      received_(kBatch),
      sending_(kBatch) {
  Open();
}

PacketPort::~PacketPort() { Close(); }

void PacketPort::Open() {
  const unsigned index = if_nametoindex(interface_.c_str());
  if (index == 0) throw std::runtime_error(Failure(interface_));
  const auto protocol = htons(ETH_P_IP);
  Descriptor opened(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!opened) throw std::runtime_error(Failure(interface_ + ": socket"));
  const int on = 1;
  if (setsockopt(opened.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) != 0) {
    throw std::runtime_error(Failure(interface_ + ": setsockopt"));
  }
  Enlarge(opened, SO_RCVBUFFORCE, SO_RCVBUF);
  Enlarge(opened, SO_SNDBUFFORCE, SO_SNDBUF);
  packet_mreq all{};
  all.mr_ifindex = static_cast<int>(index);
  all.mr_type = PACKET_MR_PROMISC;
  setsockopt(opened.get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = protocol;
  address.sll_ifindex = static_cast<int>(index);
  if (bind(opened.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error(Failure(interface_ + ": bind"));
  }
  polled_ = poller_.Add(opened, EPOLLIN, {});
  socket_ = std::move(opened);
}

void PacketPort::Close() {
  if (!socket_) return;
  poller_.Remove(socket_, polled_);
  socket_ = Descriptor();
  waiting_ = 0;
}

bool PacketPort::Receive(const Taker& take) {
  if (!socket_) return false;
  std::array<mmsghdr, kBatch> messages{};
  std::array<iovec, kBatch> parts{};
  for (std::size_t at = 0; at < kBatch; ++at) {
    parts[at] = {received_[at].data(), received_[at].size()};
    messages[at].msg_hdr.msg_iov = &parts[at];
    messages[at].msg_hdr.msg_iovlen = 1;
  }
  const int found = recvmmsg(socket_.get(), messages.data(), kBatch, MSG_DONTWAIT, nullptr);
  if (found < 0) {
    // An interface that is down can come up again; one that was removed must be opened again.
    if (errno != EAGAIN && errno != EINTR && if_nametoindex(interface_.c_str()) == 0) {
      Log(name_ + ": the interface is gone");
      ++departures_;
      Close();
    }
    return false;
  }
  for (std::size_t at = 0; at < static_cast<std::size_t>(found); ++at) {
    ++counters_.received;
    take(0, {received_[at].data(), messages[at].msg_len});
  }
  return found > 0;
}

void PacketPort::Send(std::uint16_t, Bytes head, Bytes values) {
  if (!socket_ || head.size + values.size > kMaxFrame) {
    ++counters_.no_room;
    return;
  }
  if (waiting_ == kBatch) Flush();
  std::uint8_t* frame = sending_[waiting_].data();
  std::memcpy(frame, head.data, head.size);
  if (values.size != 0) std::memcpy(frame + head.size, values.data, values.size);
  sizes_[waiting_++] = head.size + values.size;
}

void PacketPort::Flush() {
  if (waiting_ == 0) return;
  std::array<mmsghdr, kBatch> messages{};
  std::array<iovec, kBatch> parts{};
  for (std::size_t at = 0; at < waiting_; ++at) {
    parts[at] = {sending_[at].data(), sizes_[at]};
    messages[at].msg_hdr.msg_iov = &parts[at];
    messages[at].msg_hdr.msg_iovlen = 1;
  }
  const int sent = sendmmsg(socket_.get(), messages.data(), static_cast<unsigned>(waiting_), 0);
  const std::size_t done = sent < 0 ? 0 : static_cast<std::size_t>(sent);
  counters_.sent += done;
  counters_.no_room += waiting_ - done;
  waiting_ = 0;
}

void PacketPort::Tend() {
  if (socket_ || if_nametoindex(interface_.c_str()) == 0) return;
  try {
    Open();
    Log(name_ + ": the interface is back");
  } catch (const std::runtime_error&) {
    // Not ready yet: Tend() tries again.
  }
}

}  // namespace softswitch
