#include "memif_port.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "log.h"

namespace softswitch {
namespace {

constexpr char kName[] = "switchml-switch";
constexpr std::size_t kMaxDescriptors = 8;

sockaddr_un SocketAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    throw std::runtime_error(path + ": a socket's path has at most " +
                             std::to_string(sizeof address.sun_path - 1) + " bytes");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Descriptor Socket() {
  return Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// Removes the socket of a switch that was killed.
void RemoveStale(const std::string& path, const sockaddr_un& address) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  const Descriptor probe = Socket();
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    throw std::runtime_error(path + ": another process listens there");
  }
  unlink(path.c_str());
}

template <std::size_t Size>
void Copy(char (&to)[Size], const std::string& text) {
  const std::size_t bytes = std::min(text.size(), Size - 1);
  std::memcpy(to, text.data(), bytes);
  to[bytes] = '\0';
}

bool Write(const Descriptor& to, const memif::Message& message) {
  return send(to.get(), &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof message);
}

}  // namespace

MemifPort::MemifPort(Poller& poller, const std::string& path)
    : poller_(poller), path_(path), name_("memif:" + path) {
  const sockaddr_un address = SocketAddress(path);
  RemoveStale(path, address);
  Descriptor listener = Socket();
  if (!listener) throw std::runtime_error(Failure(path + ": socket"));
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error(Failure(path));
  }
  if (listen(listener.get(), 4) != 0) throw std::runtime_error(Failure(path + ": listen"));
  listener_name_ = poller_.Add(listener, EPOLLIN, [this] { Accept(); });
  listener_ = std::move(listener);
}

MemifPort::~MemifPort() {
  Drop("");
  poller_.Remove(listener_, listener_name_);
  unlink(path_.c_str());
}

void MemifPort::Accept() {
  Descriptor client(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!client) return;
  // The last client may have disconnected unnoticed.
  if (control_) Read();
  if (control_) return Refuse(client, "another client is connected");

  memif::Message hello{};
  hello.type = memif::Type::kHello;
  Copy(hello.hello.name, kName);
  hello.hello.lowest_version = hello.hello.highest_version = memif::kVersion;
  hello.hello.last_region = MemifLink::kMaxRegions - 1;
  hello.hello.last_to_client = hello.hello.last_to_server = MemifLink::kMaxRings - 1;
  hello.hello.log2_slots = MemifLink::kMaxLog2Slots;
  try {
    control_name_ = poller_.Add(client, EPOLLIN, [this] { Read(); });
  } catch (const std::runtime_error& full) {
    return Refuse(client, full.what());
  }
  control_ = std::move(client);
  link_.emplace();
  if (!Write(control_, hello)) Drop("");
}

void MemifPort::Read() {
  while (control_) {
    memif::Message message{};
    iovec part = {&message, sizeof message};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> room{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = room.data();
    header.msg_controllen = room.size();
    const ssize_t bytes = recvmsg(control_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
    // All descriptors must be closed, although only the first is used.
    std::vector<Descriptor> descriptors;
    for (cmsghdr* each = CMSG_FIRSTHDR(&header); each != nullptr;
         each = CMSG_NXTHDR(&header, each)) {
      if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t at = 0; at < count; ++at) {
        int number;
        std::memcpy(&number, CMSG_DATA(each) + at * sizeof number, sizeof number);
        descriptors.emplace_back(number);
      }
    }
    if (bytes <= 0) return Drop("the client has gone");
    try {
      if (bytes != static_cast<ssize_t>(sizeof message)) throw MemifFault("wrong message size");
      Handle(message, descriptors.empty() ? Descriptor() : std::move(descriptors.front()));
    } catch (const std::runtime_error& error) {  // a MemifFault, or the poller is full
      Refuse(control_, error.what());
      return Drop(error.what());
    }
  }
}

void MemifPort::Handle(const memif::Message& message, Descriptor descriptor) {
  using memif::Type;
  if (message.type == Type::kDisconnect) return Drop("the client has disconnected");
  if (message.type == Type::kAck) return;
  if (connected_) throw MemifFault("unexpected message");
  if ((message.type == Type::kInit) == begun_) throw MemifFault("unexpected message");
  memif::Message answer{};
  answer.type = Type::kAck;
  switch (message.type) {
    case Type::kInit:
      if (message.init.version != memif::kVersion) throw MemifFault("another version of memif");
      if (message.init.mode != 0) throw MemifFault("only Ethernet is served");
      begun_ = true;
      break;
    case Type::kAddRegion:
      link_->AddRegion(message.add_region, std::move(descriptor));
      break;
    case Type::kAddRing:
      link_->AddRing(message.add_ring, std::move(descriptor));
      break;
    case Type::kConnect:
      link_->Finish();
      for (std::size_t queue = 0; queue < link_->queues(); ++queue) {
        // Edge-triggered, because the eventfd is never read: each write is an event.
        interrupt_names_.push_back(
            poller_.Add(link_->interrupt(queue), EPOLLIN | EPOLLET, Poller::Action()));
      }
      link_->Wake(wake_);
      connected_ = true;
      answer.type = Type::kConnected;
      Copy(answer.connect.interface, kName);
      Log(name_ + ": connected, queues: " + std::to_string(link_->queues()));
      break;
    default:
      throw MemifFault("unknown message");
  }
  Answer(answer);
}

void MemifPort::Answer(const memif::Message& message) {
  if (!Write(control_, message)) Drop("the client does not read its messages");
}

void MemifPort::Refuse(const Descriptor& to, const std::string& reason) {
  memif::Message message{};
  message.type = memif::Type::kDisconnect;
  Copy(message.disconnect.reason, reason);
  Write(to, message);
  Log(name_ + ": refused: " + reason);
}

void MemifPort::Drop(const std::string& reason) {
  if (!control_) return;
  if (connected_) {
    ++departures_;
    if (!reason.empty()) Log(name_ + ": disconnected: " + reason);
  }
  for (std::size_t queue = 0; queue < interrupt_names_.size(); ++queue) {
    poller_.Remove(link_->interrupt(queue), interrupt_names_[queue]);
  }
  interrupt_names_.clear();
  poller_.Remove(control_, control_name_);
  // Closing with unread bytes would drop the messages that were sent to the client.
  char left[memif::kMessageBytes];
  while (recv(control_.get(), left, sizeof left, MSG_DONTWAIT) > 0) {
  }
  control_ = Descriptor();
  link_.reset();
  begun_ = connected_ = false;
  fault_.clear();
}

template <class Work>
bool MemifPort::Guarded(const Work& work) {
  if (!connected_ || !fault_.empty()) return false;
  try {
    return work();
  } catch (const MemifFault& fault) {
    fault_ = fault.what();
    return false;
  }
}

bool MemifPort::Receive(const Taker& take) {
  return Guarded([&] { return link_->Receive(take, counters_); });
}

void MemifPort::Send(std::uint16_t queue, Bytes head, Bytes values) {
  if (!connected_ || !fault_.empty()) {
    ++counters_.no_room;
    return;
  }
  Guarded([&] {
    link_->Send(queue, head, values, counters_);
    return true;
  });
}

void MemifPort::Flush() {
  Guarded([&] {
    link_->Flush(counters_);
    return true;
  });
  if (fault_.empty()) return;
  Refuse(control_, fault_);
  Drop(std::string(fault_));
}

void MemifPort::Wake(bool wanted) {
  wake_ = wanted;
  if (connected_) link_->Wake(wanted);
}

}  // namespace softswitch
