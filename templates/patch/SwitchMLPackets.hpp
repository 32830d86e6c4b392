/// Packets that the client library has counted, where it can tell.
#pragma once

#include <cstdint>
#include <string>

#include "SwitchMLAgreement.hpp"

namespace switchml_torch {

struct Packets {
  bool known = false;  // false: the library has no such counters
  std::uint64_t sent = 0;
  std::uint64_t answers = 0;
  std::uint64_t wrong = 0;  // what came and was no answer
  std::uint64_t timeouts = 0;

  /// Words for a message; none where nothing is known.
  std::string words() const {
    return known ? text("packets: ", sent, " sent, ", answers, " answered, ", wrong, " wrong, ",
                        timeouts, timeouts == 1 ? " timeout" : " timeouts")
                 : "";
  }

  std::string json() const {
    return known ? text("{\"sent\": ", sent, ", \"answers\": ", answers, ", \"wrong\": ", wrong,
                        ", \"timeouts\": ", timeouts, "}")
                 : "null";
  }
};

/// A library that is built without timeouts does not count them.
template <typename Stats>
auto timeoutsOf(const Stats& stats, int /*preferred*/) -> decltype(stats.Timeouts()) {
  return stats.Timeouts();
}

template <typename Stats>
std::uint64_t timeoutsOf(const Stats& /*stats*/, long /*otherwise*/) {
  return 0;
}

/// The counters of the simulator, and of the real library with the mend `counts`.
template <typename Stats>
auto packetsOf(const Stats& stats, int /*preferred*/)
    -> decltype(static_cast<void>(stats.TotalPktsSent()), Packets()) {
  return {true, stats.TotalPktsSent(), stats.CorrectPktsReceived(), stats.WrongPktsReceived(),
          timeoutsOf(stats, 0)};
}

template <typename Stats>
Packets packetsOf(const Stats& /*stats*/, long /*otherwise*/) {
  return {};
}

}  // namespace switchml_torch
