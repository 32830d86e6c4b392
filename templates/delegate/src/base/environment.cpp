#include "base/environment.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/text.hpp"

namespace switchml_delegate {

bool isSet(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
}

std::string readNumber(const char* name, const char* unit, std::uint64_t& value,
                       std::uint64_t most) {
  const char* const given = std::getenv(name);
  if (given == nullptr || *given == '\0') {
    return "";
  }
  char* end = nullptr;
  errno = 0;
  const auto read = std::strtoull(given, &end, 10);
  if (errno != 0 || *end != '\0' || *given < '0' || *given > '9' || read > most) {
    return text(name, " is '", given, "', not a number of ", unit,
                most == UINT64_MAX ? "" : text(" up to ", most));
  }
  value = std::max<std::uint64_t>(read, 1);
  return "";
}

}  // namespace switchml_delegate
