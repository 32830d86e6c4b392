/// Passes over a row that several threads share, and what SwitchML's fixed point has no place for.
///
/// The fixed point has no inf and no NaN, and makes finite numbers of them. A packet that holds
/// 2^126 gets the exponent 127, which every worker turns into a scale of 0 and NaN for the whole
/// packet. So no value of that magnitude or more but 2^126 itself goes to the library.
#pragma once

#include "SwitchMLInterface.hpp"
#include "base/quantize.hpp"
#include "base/row_pool.hpp"

namespace switchml_delegate {

/// Threads of this process that take parts of its rows.
inline RowPool& helpers() {
  static auto* const threads = new RowPool;
  return *threads;
}

/// Calls `function` with the begins and ends of parts of a row, some of them at once where the row
/// is long. `numel` counts what is `weight` elements each.
template <typename Function>
void inParts(std::uint64_t numel, std::uint64_t weight, const Function& function) {
  constexpr std::uint64_t kPart = 1U << 16U;   // the part that a core's own cache has room for
  constexpr std::uint64_t kShort = 4 * kPart;  // to wake a thread takes longer
  const auto size = numel * weight < kShort ? numel : std::max<std::uint64_t>(kPart / weight, 1);
  helpers().share(numel, size, function);
}

/// Marks of overflow in a row of floats.
struct OverflowMarks {
  /// Replaces what has no place by 2^126. Values that `fill` has to copy there, from element
  /// `first` of its row on, are looked at while they are in the cache. True where there was such a
  /// value.
  bool set(std::uint64_t numel, std::uint64_t first, const Steps::Step& fill) const {
    constexpr std::uint64_t kPiece = 1U << 18U;
    constexpr std::uint64_t kBlock = 4096;
    std::atomic<bool> found{false};
    const auto size = fill ? kPiece : numel;
    for (std::uint64_t begin = 0; begin < numel; begin += size) {
      const auto end = std::min(begin + size, numel);
      if (fill) {
        fill(static_cast<std::int64_t>(first + begin), static_cast<std::int64_t>(first + end));
      }
      inParts(end - begin, 1, [&](std::uint64_t least, std::uint64_t most) noexcept {
        for (auto from = begin + least; from < begin + most; from += kBlock) {
          const auto to = std::min(from + kBlock, begin + most);
          if (!(quantize::largest(values + from, to - from) < kMost)) {
            found.store(true, std::memory_order_relaxed);
            std::replace_if(values + from, values + to, hasNoPlace, kMost);
          }
        }
      });
    }
    return found;
  }

  /// What the library would have made NaN is NaN in a sum of floats as well.
  void toNaN(std::uint64_t numel) const {
    inParts(numel, 1, [&](std::uint64_t first, std::uint64_t last) noexcept {
      std::replace_if(values + first, values + last, hasNoPlace,
                      std::numeric_limits<float>::quiet_NaN());
    });
  }

  /// The least magnitude that the library has no numbers for.
  static constexpr float kMost = 0x1p126F;

  static bool hasNoPlace(float value) noexcept { return !(std::fabs(value) < kMost); }

  float* values;
};

}  // namespace switchml_delegate
