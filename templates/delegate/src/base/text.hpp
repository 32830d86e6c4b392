/// Functions that make texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <locale>
#include <sstream>
#include <string>

#include "lines.hpp"

namespace switchml_delegate {

/// Returns the parts as one text, in the classic locale, not in that of the program.
template <typename... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out.precision(9);  // tells neighbouring floats apart
  (out << ... << parts);
  return out.str();
}

/// Returns the texts of at most `most` elements, with `between` between them.
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

/// Returns the beginning of a text that may be too long for a message.
std::string shortened(const std::string& value);

/// Returns a message about a rank that is gone, and the reason if that is known.
std::string goneText(int rank, const std::string& reason = "");

}  // namespace switchml_delegate
