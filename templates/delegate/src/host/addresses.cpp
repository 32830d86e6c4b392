#include "host/addresses.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "base/text.hpp"
#include "descriptor.hpp"
#include "host/substitution.hpp"

namespace switchml_delegate {
namespace {

std::string addressText(const sockaddr* address) {
  char out[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, out, sizeof out);
  return out;
}

}  // namespace

Interfaces interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    throw std::runtime_error(text("the network interfaces cannot be read: ", std::strerror(errno)));
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(list, freeifaddrs);
  Interfaces out;
  for (const auto* one = list; one != nullptr; one = one->ifa_next) {
    auto& address = out[one->ifa_name];
    if (address.empty() && one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET) {
      address = addressText(one->ifa_addr);
    }
  }
  return out;
}

std::string sourceAddress(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &list) != 0) {
    return "";
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> found(list, freeaddrinfo);
  const Descriptor made(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  socklen_t length = sizeof own;
  const bool known =
      connect(made.get(), found->ai_addr, found->ai_addrlen) == 0 &&  // sends nothing
      getsockname(made.get(), reinterpret_cast<sockaddr*>(&own), &length) == 0;
  return known ? addressText(reinterpret_cast<const sockaddr*>(&own)) : "";
}

std::string workerAddress(const std::string& value, const Interfaces& known, const Card& card,
                          const std::string& other) {
  constexpr const char* kInterface = "interface:";
  const bool given = value.rfind(kInterface, 0) == 0;
  if (!given && value != kAuto) {
    return value;
  }
  const auto name = given ? value.substr(std::strlen(kInterface)) : card.interface;
  const auto found = known.find(name);
  std::string reason;
  if (found != known.end()) {
    if (!found->second.empty()) {
      return found->second;
    }
    reason = text(name, " has no IPv4 address; give it one");
  } else if (given || !name.empty()) {
    reason = text(
        "there is no interface ", shortened(name), "; there are ",
        known.empty() ? "none" : joined(known, ", ", [](const auto& one) { return one.first; }));
  } else if (!other.empty() && other.rfind("127.", 0) != 0) {
    return other;
  } else {
    reason =
        "the interface of the card is not known, and no other leads to the controller; set it to "
        "an address or to interface:NAME";
  }
  throw std::invalid_argument(text("worker_ip = ", shortened(value), ": ", reason));
}

}  // namespace switchml_delegate
