#include "join/probe.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/quantize.hpp"
#include "base/text.hpp"

namespace switchml_delegate {
namespace {

constexpr std::uint64_t kMaxProbed = std::uint64_t{1} << 22;
constexpr unsigned kMantissa = 24;

}  // namespace

std::uint64_t probeNumel(std::uint64_t outstanding, std::uint64_t threads, std::uint64_t unit) {
  const auto units = 2 * std::max(outstanding, threads) + threads;
  return unit > kMaxProbed / units ? kMaxProbed : units * unit + 1;
}

Probe::Probe(std::uint32_t rank, std::uint32_t ranks, std::uint64_t unit, std::uint64_t seed)
    : rank_(rank), ranks_(ranks), unit_(unit), seed_(seed) {
  while ((std::uint64_t{ranks} << (bits_ + 1)) <= (std::uint64_t{1} << kMantissa)) {
    ++bits_;
  }
}

/// SplitMix64: all bits of the result depend on all bits of the seed and of `i`.
inline std::uint32_t Probe::mixed(std::uint64_t i) const {
  const auto bits = quantize::detail::mixed(seed_ + (i + 1) * 0x9e3779b97f4a7c15U);
  return static_cast<std::uint32_t>(bits >> 32U);
}

inline std::uint32_t Probe::factor(std::uint64_t i) const {
  return 1 + static_cast<std::uint32_t>((rank_ + i / unit_ + mixed(i)) % ranks_);
}

/// Sum of the factors of all ranks.
inline std::uint64_t Probe::factors() const {
  return std::uint64_t{ranks_} * (std::uint64_t{ranks_} + 1) / 2;
}

/// Value of float32 that all ranks have. Its magnitude changes with each unit.
inline double Probe::weight(std::uint64_t i) const {
  const auto random = mixed(i);
  const auto magnitude = static_cast<int>(i / unit_ % 5);
  const auto digits = static_cast<double>((random >> 1) & ((1U << bits_) - 1));
  const double value = std::ldexp(digits, -static_cast<int>(kMantissa) - magnitude);
  return (random & 1U) != 0 ? -value : value;
}

inline void Probe::set(std::uint64_t i, std::int32_t& value) const {
  value = static_cast<std::int32_t>(mixed(i) * factor(i));
}

/// Less than 1, and no digit of it is lost in a float.
inline void Probe::set(std::uint64_t i, float& value) const {
  value = static_cast<float>(weight(i) * static_cast<double>(factor(i)));
}

std::int32_t Probe::sum(std::uint64_t i, std::int32_t /*type*/) const {
  return static_cast<std::int32_t>(mixed(i) * static_cast<std::uint32_t>(factors()));
}

double Probe::sum(std::uint64_t i, float /*type*/) const {
  return weight(i) * static_cast<double>(factors());
}

double Probe::tolerance(std::uint64_t i) const {
  constexpr double kHalf = 0x1p-24;  // the largest relative error of one rounding to float
  const double sum = std::fabs(this->sum(i, float{}));
  const double integers = 0.5 * ranks_ * (ranks_ / static_cast<double>(INT32_MAX));
  const double fixed = sum * kHalf + integers + 2 * sum * kHalf;
  const double floats = (ranks_ - 1) * kHalf * sum;
  return std::max(fixed, floats) * (1 + 0x1p-20);  // products of errors
}

template <typename Value>
void Probe::fill(std::vector<Value>& values) const {
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    set(i, values[i]);
  }
}

template <typename Value>
std::string Probe::mismatch(const std::vector<Value>& sums) const {
  constexpr bool kFloat = std::is_same<Value, float>::value;
  std::uint64_t wrong = 0;
  std::uint64_t first = 0;
  for (std::uint64_t i = 0; i < sums.size(); ++i) {
    const auto error = static_cast<double>(sums[i]) - static_cast<double>(sum(i, Value{}));
    if (!(std::fabs(error) <= (kFloat ? tolerance(i) : 0))) {
      first = wrong == 0 ? i : first;
      ++wrong;
    }
  }
  return wrong == 0 ? ""
                    : text("SwitchML summed the probe wrongly: ", wrong, " of ", sums.size(),
                           kFloat ? " float32" : " int32", " elements, the first is number ", first,
                           " with ", sums[first], " instead of ", sum(first, Value{}));
}

template void Probe::fill(std::vector<std::int32_t>& values) const;
template void Probe::fill(std::vector<float>& values) const;
template std::string Probe::mismatch(const std::vector<std::int32_t>& sums) const;
template std::string Probe::mismatch(const std::vector<float>& sums) const;

}  // namespace switchml_delegate
