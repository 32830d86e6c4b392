#include "socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace switchml {
namespace {

using std::chrono::milliseconds;

// Whether each descriptor belongs to an Fd, by its number. Atomics, because the handler of a forked
// child must not take a lock. A child merely inherits descriptors beyond the table.
std::array<std::atomic<bool>, 65536> owned_fds;

void CloseInChild() {
  for (size_t fd = 0; fd < owned_fds.size(); ++fd) {
    if (owned_fds[fd].exchange(false, std::memory_order_relaxed)) {
      close(static_cast<int>(fd));
    }
  }
}

void SetOwned(int fd, bool owned) {
  if (static_cast<size_t>(fd) < owned_fds.size()) {
    owned_fds[static_cast<size_t>(fd)].store(owned, std::memory_order_relaxed);
  }
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses Resolve(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  const int error = getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    throw LinkError("controller_ip " + endpoint.host + ": " + gai_strerror(error));
  }
  return Addresses(found, freeaddrinfo);
}

Fd NewSocket(const addrinfo& address) {
  return Fd(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

void SetOption(const Fd& fd, int level, int option, int value = 1) {
  setsockopt(fd.get(), level, option, &value, sizeof value);
}

// Port of an address of IPv4 or IPv6, in network order.
in_port_t& PortOf(sockaddr& address) {
  return address.sa_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                       : reinterpret_cast<sockaddr_in&>(address).sin_port;
}

// True if an address before this one, from `first` on, is the same.
bool IsRepeated(const addrinfo& address, const addrinfo* first) {
  const auto text = [](const addrinfo& one) {
    std::array<char, NI_MAXHOST> host{};
    getnameinfo(one.ai_addr, one.ai_addrlen, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST);
    return std::string(host.data());
  };
  while (first != &address && text(*first) != text(address)) {
    first = first->ai_next;
  }
  return first != &address;
}

// 0, or the errno of the failure.
int ConnectOnce(const Fd& fd, const addrinfo& address, TimePoint deadline) {
  if (connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) {
    return 0;
  }
  if (errno != EINPROGRESS) {
    return errno;
  }
  if (!WaitFor(fd, POLLOUT, deadline)) {
    return ETIMEDOUT;
  }
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

// True if the socket is connected to itself, which can happen on a port that the system chooses.
bool ConnectedToItself(const Fd& fd) {
  sockaddr_storage local{};
  sockaddr_storage remote{};
  socklen_t local_length = sizeof local;
  socklen_t remote_length = sizeof remote;
  return getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &local_length) == 0 &&
         getpeername(fd.get(), reinterpret_cast<sockaddr*>(&remote), &remote_length) == 0 &&
         local_length == remote_length && std::memcmp(&local, &remote, local_length) == 0;
}

TransferResult Result(ssize_t moved) {
  if (moved > 0) {
    return {Transfer::kDone, static_cast<size_t>(moved)};
  }
  const bool again = moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  return {again ? Transfer::kBlocked : Transfer::kClosed, 0};
}

}  // namespace

Fd::Fd(int fd) : fd_(fd) {
  static std::once_flag registered;
  std::call_once(registered, [] { pthread_atfork(nullptr, nullptr, CloseInChild); });
  if (fd_ >= 0) {
    SetOwned(fd_, true);
  }
}

Fd::Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Fd::Close() {
  if (fd_ >= 0) {
    SetOwned(fd_, false);
    close(std::exchange(fd_, -1));
  }
}

std::string Endpoint::Text() const {
  const bool colons = host.find(':') != std::string::npos;  // an address of IPv6
  return (colons ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::vector<Fd> Listen(const Endpoint& endpoint) {
  const Addresses found = Resolve(endpoint);
  std::vector<Fd> listeners;
  uint16_t port = endpoint.port;
  int error = 0;
  for (const addrinfo* address = found.get(); address != nullptr; address = address->ai_next) {
    if (IsRepeated(*address, found.get())) {
      continue;  // a name may be in two of the system's files
    }
    PortOf(*address->ai_addr) = htons(port);
    Fd fd = NewSocket(*address);
    if (fd) {
      SetOption(fd, SOL_SOCKET, SO_REUSEADDR);
    }
    if (fd && bind(fd.get(), address->ai_addr, address->ai_addrlen) == 0 &&
        listen(fd.get(), SOMAXCONN) == 0) {
      port = LocalPort(fd);  // the same for all addresses
      listeners.push_back(std::move(fd));
    } else if (error == 0 || errno == EADDRINUSE) {
      error = errno;
    }
  }
  // A name may have addresses of other machines, or of a family that this system lacks.
  if (listeners.empty() || error == EADDRINUSE) {
    throw LinkError("cannot listen on " + endpoint.Text() + ": " + std::strerror(error));
  }
  return listeners;
}

uint16_t LocalPort(const Fd& fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  auto* const local = reinterpret_cast<sockaddr*>(&address);
  if (getsockname(fd.get(), local, &length) != 0) {
    throw LinkError("a socket without an address");
  }
  return ntohs(PortOf(*local));
}

Fd Connect(const Endpoint& endpoint, TimePoint deadline) {
  const Addresses found = Resolve(endpoint);
  for (auto pause = milliseconds(5);; pause = std::min(2 * pause, milliseconds(100))) {
    int error = 0;
    for (const addrinfo* address = found.get(); address != nullptr; address = address->ai_next) {
      const TimePoint now = std::chrono::steady_clock::now();
      Fd fd = NewSocket(*address);
      // An address that does not answer leaves time for the next one.
      const TimePoint limit = address->ai_next == nullptr ? deadline : now + (deadline - now) / 2;
      error = fd ? ConnectOnce(fd, *address, limit) : errno;
      if (error == 0 && ConnectedToItself(fd)) {
        error = ECONNREFUSED;
      }
      if (error == 0) {
        SetOption(fd, IPPROTO_TCP, TCP_NODELAY);
        return fd;
      }
    }
    if (std::chrono::steady_clock::now() + pause >= deadline) {
      throw LinkError("no connection to " + endpoint.Text() + ": " + std::strerror(error));
    }
    std::this_thread::sleep_for(pause);
  }
}

Fd Accept(const Fd& listener) {
  Fd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd) {
    SetOption(fd, IPPROTO_TCP, TCP_NODELAY);
    SetOption(fd, SOL_SOCKET, SO_KEEPALIVE);
    SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, 60);
    SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
    SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, 6);
  }
  return fd;
}

TransferResult SendParts(const Fd& socket, Bytes first, Bytes second, size_t skip) {
  const size_t skip_first = std::min(skip, first.size);
  const size_t skip_second = skip - skip_first;
  const auto part = [](Bytes bytes, size_t skipped) {
    char* const begin = static_cast<char*>(const_cast<void*>(bytes.data));
    return iovec{skipped < bytes.size ? begin + skipped : nullptr, bytes.size - skipped};
  };
  std::array<iovec, 2> parts{part(first, skip_first), part(second, skip_second)};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return Result(sendmsg(socket.get(), &message, MSG_NOSIGNAL));
}

TransferResult Receive(const Fd& socket, void* data, size_t bytes) {
  return Result(recv(socket.get(), data, bytes, 0));
}

bool WaitFor(const Fd& fd, short events, TimePoint deadline) {
  pollfd entry{fd.get(), events, 0};
  for (;;) {
    const int ready = poll(&entry, 1, PollTimeout(deadline));
    if (ready > 0) {
      return true;
    }
    if (ready < 0 && errno != EINTR) {
      throw LinkError(std::string("poll: ") + std::strerror(errno));
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return false;
    }
  }
}

int PollTimeout(TimePoint deadline) {
  const auto left =
      std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, INT_MAX));
}

}  // namespace switchml
