/// Values of variables of the environment.
#pragma once

#include <cstdint>
#include <string>

namespace switchml_delegate {

/// Largest number of elements, values or bytes that a variable can have.
constexpr std::uint64_t kMaxCounted = std::uint64_t{1} << 31;

/// Returns whether a variable is set to another value than "0".
bool isSet(const char* name);

/// Reads a variable that is a whole number; `value` is at least 1. Does not change `value` if the
/// variable is not set. Returns what is wrong with the variable, or an empty string.
std::string readNumber(const char* name, const char* unit, std::uint64_t& value,
                       std::uint64_t most = UINT64_MAX);

}  // namespace switchml_delegate
