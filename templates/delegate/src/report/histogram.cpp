#include "report/histogram.hpp"

#include <algorithm>

namespace switchml_delegate {

void DurationHistogram::add(std::chrono::steady_clock::duration took) noexcept {
  const auto seconds = std::chrono::duration<double>(took).count();
  const auto* const bound = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
  ++counts_[static_cast<std::size_t>(bound - kBounds.begin())];
  nanoseconds_ += static_cast<std::uint64_t>(std::chrono::nanoseconds(took).count());
}

DurationHistogram::Counts DurationHistogram::counts() const {
  Counts out{};
  std::copy(counts_.begin(), counts_.end(), out.begin());
  return out;
}

double DurationHistogram::seconds() const { return 1e-9 * static_cast<double>(nanoseconds_); }

}  // namespace switchml_delegate
