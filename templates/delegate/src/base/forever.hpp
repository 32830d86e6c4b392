/// Limit of a wait without a limit.
#pragma once

#include <chrono>

namespace switchml_delegate {

/// Limit of a wait that has none. A clock can add it to the present time.
constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);

}  // namespace switchml_delegate
