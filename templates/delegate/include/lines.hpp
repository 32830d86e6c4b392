/// Texts that both the delegate library and the loader in torch write. C++14.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

namespace switchml_delegate {

constexpr std::size_t kMaxDetail = 4096;  // characters of another rank's text
constexpr const char* kStaysWithGloo = "allreduce stays with Gloo";

/// Copies at most `most` characters, and writes '?' for each that is not from `first` to '~'.
inline std::string printable(const std::string& received, std::size_t most = kMaxDetail,
                             char first = ' ') {
  auto out = received.substr(0, most);
  std::replace_if(
      out.begin(), out.end(), [first](char letter) { return letter < first || letter > '~'; }, '?');
  return out;
}

/// Returns `value` in quotes. `other` replaces control characters, and characters after `last`.
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
/// Returns how many bytes all of it needs.
inline std::size_t copyText(const std::string& text, char* buffer, std::size_t capacity) {
  if (capacity > 0) {
    buffer[text.copy(buffer, capacity - 1)] = '\0';
  }
  return text.size() + 1;
}

/// Line of a group, which its rank 0 prints.
inline std::string groupLine(int size, const std::string& decision) {
  return "process group of " + std::to_string(size) + (size == 1 ? " rank: " : " ranks: ") +
         decision;
}

/// Decision to use Gloo.
inline std::string glooDecision(const std::string& reason) {
  return std::string(kStaysWithGloo) + ": " + reason;
}

/// Error of ranks that may not use Gloo.
inline std::string refusalText(const std::string& line) {
  return "SWITCHML_REQUIRE is set, but in this " + line;
}

inline std::string warningText(int rank, const std::string& message) {
  return "warning: rank " + std::to_string(rank) + ": " + message;
}

}  // namespace switchml_delegate
