/// Messages between the neighbours in the ring of a group.
///
/// All ranks have the same sources, so a message is sent as it lies in memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "base/quietly.hpp"
#include "base/text.hpp"

namespace switchml_delegate {

/// Each channel has one kind of message. No rank receives on kPolls: a send there only tests the
/// connection.
enum Channel : unsigned { kWarnings, kRecoveries, kHeartbeats, kPolls };

/// Sent to the successor by a rank that fails, is warned, or aborts.
struct Warning {
  std::int32_t rank = 0;  // first rank that failed, as far as the sender knows
  char final = 0;         // 1: a rank has aborted, so all ranks throw
  char reason[251] = "";
};

/// Answer of a rank to all others after a step of a resume attempt.
struct StepAnswer {
  std::uint64_t seed = 0;
  char permanent = 0;     // 1: the rank would refuse each later attempt as well
  char reason[247] = "";  // of its refusal; empty if the rank has completed the step
};

/// Heartbeat to the successor.
struct Beat {
  std::int32_t gone = -1;   // rank that is gone, as far as the sender knows; -1: none
  std::int32_t closed = 0;  // 1: the connection of that rank has closed, so it is gone for good
};

/// Printable text of a received message, which may lack its final NUL.
template <std::size_t N>
std::string receivedText(const char (&characters)[N]) noexcept {
  return textOrOutOfMemory([&] { return printable({characters, strnlen(characters, N)}); });
}

}  // namespace switchml_delegate
