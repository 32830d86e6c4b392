/// Packets that the client library has counted.
#pragma once

#include <cstdint>
#include <string>

namespace switchml_delegate {

/// Counters of the client library since its first start.
struct Packets {
  bool known = false;  // false: the client library has no such counters
  std::uint64_t sent = 0;
  std::uint64_t answers = 0;
  std::uint64_t wrong = 0;  // received packets that were no answers
  std::uint64_t timeouts = 0;

  /// Text for a message; empty if nothing is known.
  std::string summary() const;

  /// A JSON object, or null if nothing is known.
  std::string json() const;
};

}  // namespace switchml_delegate
