#include "join/reachable.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "base/text.hpp"
#include "descriptor.hpp"

namespace switchml_delegate {

std::string unreachable(const std::string& host, std::uint16_t port,
                        std::chrono::steady_clock::time_point deadline) {
  using Clock = std::chrono::steady_clock;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const auto bare = host.size() > 2 && host.front() == '[' && host.back() == ']'
                        ? host.substr(1, host.size() - 2)
                        : host;
  if (const int error = getaddrinfo(bare.c_str(), text(port).c_str(), &hints, &found); error != 0) {
    return gai_strerror(error);
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  const auto attempt = [deadline](const addrinfo& address) {
    const Descriptor made(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (made.get() >= 0 && connect(made.get(), address.ai_addr, address.ai_addrlen) == 0) {
      return 0;
    }
    if (made.get() < 0 || errno != EINPROGRESS) {
      return errno;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd entry{made.get(), POLLOUT, 0};
    if (poll(&entry, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, INT32_MAX))) <= 0) {
      return ETIMEDOUT;
    }
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    return error;
  };
  for (;;) {
    int error = 0;
    for (const auto* address = addresses.get(); address != nullptr; address = address->ai_next) {
      error = attempt(*address);
      if (error == 0) {
        return "";
      }
    }
    const auto next = Clock::now() + std::chrono::milliseconds(50);
    if (next >= deadline) {
      return std::strerror(error);
    }
    std::this_thread::sleep_until(next);
  }
}

}  // namespace switchml_delegate
