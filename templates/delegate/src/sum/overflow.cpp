#include "sum/overflow.hpp"

#include <algorithm>
#include <atomic>
#include <limits>

#include "base/quantize.hpp"
#include "sum/rows.hpp"

namespace switchml_delegate {

bool OverflowMarks::set(std::uint64_t numel, std::uint64_t first,
                        const PartCallbacks::Callback& fill) const {
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
        if (!(quantize::largest(values + from, to - from) < kMark)) {
          found.store(true, std::memory_order_relaxed);
          std::replace_if(values + from, values + to, overflows, kMark);
        }
      }
    });
  }
  return found;
}

void OverflowMarks::toNaN(std::uint64_t numel) const {
  inParts(numel, 1, [&](std::uint64_t first, std::uint64_t last) noexcept {
    std::replace_if(values + first, values + last, overflows,
                    std::numeric_limits<float>::quiet_NaN());
  });
}

}  // namespace switchml_delegate
