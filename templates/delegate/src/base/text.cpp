#include "base/text.hpp"

namespace switchml_delegate {

std::string shortened(const std::string& value) {
  constexpr std::size_t kMax = 80;
  return value.size() <= kMax ? value : value.substr(0, kMax) + "...";
}

std::string inQuotes(const std::string& value, unsigned char last, char other) {
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

std::size_t copyText(const std::string& text, char* buffer, std::size_t capacity) {
  if (capacity > 0) {
    buffer[text.copy(buffer, capacity - 1)] = '\0';
  }
  return text.size() + 1;
}

std::string goneText(int rank, const std::string& reason) {
  return text("rank ", rank, " is gone", reason.empty() ? "" : " (" + reason + ")");
}

}  // namespace switchml_delegate
