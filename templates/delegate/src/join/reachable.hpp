/// Test of whether a server can be reached, as the controller of the switch.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace switchml_delegate {

/// Reason why nothing accepts TCP connections at `host` and `port` before `deadline`; empty if
/// something does. Tries again until then. Resolves the name without a limit of its own.
std::string unreachable(const std::string& host, std::uint16_t port,
                        std::chrono::steady_clock::time_point deadline);

}  // namespace switchml_delegate
