/// Texts, numbers from the environment, and limits.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <locale>
#include <sstream>
#include <string>

#include "lines.hpp"

namespace switchml_delegate {

constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);
constexpr std::uint64_t kMostCounted = std::uint64_t{1} << 31;  // of what is counted in a setting

inline bool isSet(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
}

/// The parts one after another, whatever locale the program has set.
template <typename... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out.precision(9);  // tells neighbouring floats apart
  (out << ... << parts);
  return out.str();
}

/// Texts of the elements, at most so many of them, with `between` in between.
template <typename Range, typename Function>
std::string joined(const Range& range, const char* between, const Function& textOf,
                   std::size_t most = SIZE_MAX) {
  std::string out;
  for (auto i = range.begin(); i != range.end() && most > 0; ++i, --most) {
    out += text(out.empty() ? "" : between, textOf(*i));
  }
  return out;
}

template <typename Range>
std::string joined(const Range& range, const char* between) {
  return joined(range, between, [](const auto& element) { return element; });
}

/// Beginning of a text that may be too long for a message.
inline std::string shortened(const std::string& value) {
  constexpr std::size_t kMost = 80;
  return value.size() <= kMost ? value : value.substr(0, kMost) + "...";
}

/// `value` in quotes, with `other` in the place of control characters and of those beyond `last`.
inline std::string inQuotes(const std::string& value, unsigned char last = 0xff, char other = ' ') {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    const auto number = static_cast<unsigned char>(c);
    out += number < ' ' || number > last ? other : c;
  }
  return out + '"';
}

/// Copies a text into a buffer of `capacity` bytes as a NUL-terminated string, as far as it fits.
/// Returns the bytes that it needs.
inline std::size_t copyText(const std::string& text, char* buffer, std::size_t capacity) {
  if (capacity > 0) {
    buffer[text.copy(buffer, capacity - 1)] = '\0';
  }
  return text.size() + 1;
}

/// Names a rank that is gone, and says why where that is known.
template <typename Rank>
std::string goneText(Rank rank, const std::string& why = "") {
  return text("rank ", rank, " is gone", why.empty() ? "" : " (" + why + ")");
}

/// Reads a variable that is a whole number; leaves `value` as it is where it is not set. Returns
/// what is wrong with it.
inline std::string readNumber(const char* name, const char* unit, std::uint64_t& value,
                              std::uint64_t most = UINT64_MAX) {
  const char* given = std::getenv(name);
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
