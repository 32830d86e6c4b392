/// Histogram of durations.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace switchml_delegate {

/// Counts durations by upper bounds, as a histogram of Prometheus does. Any thread may call it; an
/// addition is two atomic ones.
class DurationHistogram {
 public:
  static constexpr std::array<double, 16> kBounds{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                                                  0.01,   0.025,   0.05,   0.1,   0.25,   0.5,
                                                  1,      2.5,     5,      10};  // seconds

  using Counts = std::array<std::uint64_t, kBounds.size() + 1>;

  void add(std::chrono::steady_clock::duration took) noexcept;

  /// Returns how many durations were larger than the previous bound and at most this one, for each
  /// bound. The last count has no bound.
  Counts counts() const;

  /// Sum of all durations.
  double seconds() const;

 private:
  std::array<std::atomic<std::uint64_t>, kBounds.size() + 1> counts_{};
  std::atomic<std::uint64_t> nanoseconds_{0};
};

}  // namespace switchml_delegate
