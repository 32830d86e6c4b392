/// Values that the ranks of a new process group sum before it delegates, and the check of their
/// sums; and a test that the controller of the switch can be reached.
///
/// Knows only the arithmetic of SwitchML.
#pragma once

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "base/quantize.hpp"
#include "base/text.hpp"

namespace switchml_delegate {

constexpr std::uint64_t kMostProbed = std::uint64_t{1} << 22;

/// Elements that take every slot of the switch more than twice: a slot has two sets, and what is
/// left of one use must not show in the next. `unit`: elements of a message.
inline std::uint64_t probeNumel(std::uint64_t outstanding, std::uint64_t threads,
                                std::uint64_t unit) {
  const auto units = 2 * std::max(outstanding, threads) + threads;
  return unit > kMostProbed / units ? kMostProbed : units * unit + 1;
}

/// A pattern that is another on each rank and in each packet, and whose sum over all ranks is known
/// without adding: the factors of the ranks are those from 1 to their number, in another order for
/// each element. Another seed is another pattern, so that the ranks of one group do not take those
/// of another for their own.
class Probe {
 public:
  /// `unit`: elements between changes of magnitude; a packet, so that exponents differ as well.
  Probe(std::uint32_t rank, std::uint32_t ranks, std::uint64_t unit, std::uint64_t seed)
      : rank_(rank), ranks_(ranks), unit_(unit), seed_(seed) {
    while ((std::uint64_t{ranks} << (bits_ + 1)) <= (std::uint64_t{1} << kMantissa)) {
      ++bits_;
    }
  }

  /// The sum that is right, and of floats the one that is right but for the tolerance.
  std::int32_t sum(std::uint64_t i, std::int32_t /*type*/) const {
    return static_cast<std::int32_t>(mixed(i) * static_cast<std::uint32_t>(factors()));
  }
  double sum(std::uint64_t i, float /*type*/) const {
    return weight(i) * static_cast<double>(factors());
  }

  /// Largest error of a right sum of floats. The largest value of every packet is below 1, so
  /// SwitchML's factor is at least INT32_MAX / ranks. Each rank rounds its value times the factor
  /// to a float (2^-24 of it) and that to an integer (half a unit of 1 / factor). The sum of the
  /// integers is exact. It is rounded to a float and divided by the factor: 2^-24 of it twice.
  /// Sums of floats, as the simulator's bypass makes them, round once for each rank.
  double tolerance(std::uint64_t i) const {
    constexpr double kHalf = 0x1p-24;  // the largest relative error of one rounding to float
    const double sum = std::fabs(this->sum(i, float{}));
    const double integers = 0.5 * ranks_ * (ranks_ / static_cast<double>(INT32_MAX));
    const double fixed = sum * kHalf + integers + 2 * sum * kHalf;
    const double floats = (ranks_ - 1) * kHalf * sum;
    return std::max(fixed, floats) * (1 + 0x1p-20);  // products of errors
  }

  template <typename Value>
  void fill(std::vector<Value>& values) const {
    for (std::uint64_t i = 0; i < values.size(); ++i) {
      set(i, values[i]);
    }
  }

  /// Empty where these are the sums over all ranks.
  template <typename Value>
  std::string objection(const std::vector<Value>& sums) const {
    constexpr bool kFloat = std::is_same<Value, float>::value;
    std::uint64_t wrong = 0;
    std::uint64_t first = 0;
    for (std::uint64_t i = 0; i < sums.size(); ++i) {
      const auto error = static_cast<double>(sums[i]) - static_cast<double>(sum(i, Value{}));
      if (!(std::fabs(error) <= (kFloat ? tolerance(i) : 0))) {
        first = wrong == 0 ? i : first;
        ++wrong;
      }
    }
    return wrong == 0 ? ""
                      : text("SwitchML summed the probe wrongly: ", wrong, " of ", sums.size(),
                             kFloat ? " float32" : " int32", " elements, the first is number ",
                             first, " with ", sums[first], " instead of ", sum(first, Value{}));
  }

 private:
  static constexpr unsigned kMantissa = 24;

  void set(std::uint64_t i, std::int32_t& value) const {
    value = static_cast<std::int32_t>(mixed(i) * factor(i));
  }
  /// Less than 1, and no digit of it is lost in a float.
  void set(std::uint64_t i, float& value) const {
    value = static_cast<float>(weight(i) * static_cast<double>(factor(i)));
  }

  /// SplitMix64: all bits of the result depend on all bits of the seed and of `i`.
  std::uint32_t mixed(std::uint64_t i) const {
    const auto bits = quantize::detail::mixed(seed_ + (i + 1) * 0x9e3779b97f4a7c15U);
    return static_cast<std::uint32_t>(bits >> 32U);
  }

  std::uint32_t factor(std::uint64_t i) const {
    return 1 + static_cast<std::uint32_t>((rank_ + i / unit_ + mixed(i)) % ranks_);
  }

  std::uint64_t factors() const { return std::uint64_t{ranks_} * (std::uint64_t{ranks_} + 1) / 2; }

  double weight(std::uint64_t i) const {
    const auto random = mixed(i);
    const auto magnitude = static_cast<int>(i / unit_ % 5);
    const auto digits = static_cast<double>((random >> 1) & ((1U << bits_) - 1));
    const double value = std::ldexp(digits, -static_cast<int>(kMantissa) - magnitude);
    return (random & 1U) != 0 ? -value : value;
  }

  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const std::uint64_t unit_;
  const std::uint64_t seed_;
  unsigned bits_ = 0;
};

/// Reason why nothing accepts TCP connections at `host` and `port` before `deadline`; empty where
/// something does. Tries again until then.
inline std::string unreachable(const std::string& host, std::uint16_t port,
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
