/// Values of variables of the environment. C++14, for the delegate library and the loader in torch.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace switchml_delegate {

/// Largest number of elements, values or bytes that a variable can have.
constexpr std::uint64_t kMaxCounted = std::uint64_t{1} << 31;

/// Returns whether a variable is set to another value than "0".
inline bool isSet(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
}

/// Reads a variable that is a whole number; `value` is at least 1. Does not change `value` if the
/// variable is not set. Returns what is wrong with the variable, or an empty string.
inline std::string readNumber(const char* name, const char* unit, std::uint64_t& value,
                              std::uint64_t most = UINT64_MAX) {
  const char* const given = std::getenv(name);
  if (given == nullptr || *given == '\0') {
    return "";
  }
  char* end = nullptr;
  errno = 0;
  const std::uint64_t read = std::strtoull(given, &end, 10);
  if (errno != 0 || *end != '\0' || *given < '0' || *given > '9' || read > most) {
    return std::string(name) + " is '" + given + "', not a number of " + unit +
           (most == UINT64_MAX ? "" : " up to " + std::to_string(most));
  }
  value = std::max<std::uint64_t>(read, 1);
  return "";
}

}  // namespace switchml_delegate
