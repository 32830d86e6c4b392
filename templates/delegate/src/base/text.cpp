#include "base/text.hpp"

namespace switchml_delegate {

std::string shortened(const std::string& value) {
  constexpr std::size_t kMax = 80;
  return value.size() <= kMax ? value : value.substr(0, kMax) + "...";
}

std::string goneText(int rank, const std::string& reason) {
  return text("rank ", rank, " is gone", reason.empty() ? "" : " (" + reason + ")");
}

}  // namespace switchml_delegate
