/// Passes over a row of elements, which several threads share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/row_pool.hpp"

namespace switchml_delegate {

/// Threads of this process that share its rows. Never destroyed.
inline RowPool& rowPool() {
  static auto* const pool = new RowPool;
  return *pool;
}

/// Calls `function` with the begins and ends of parts of a row, some of them at once if the row is
/// long, and returns when all calls have returned. `numel` counts items of `weight` elements each.
/// Called by any thread.
template <typename Function>
void inParts(std::uint64_t numel, std::uint64_t weight, const Function& function) {
  constexpr std::uint64_t kPart = 1U << 16U;   // elements that a core's own cache holds
  constexpr std::uint64_t kShort = 4 * kPart;  // to wake a thread takes longer
  const auto size = numel * weight < kShort ? numel : std::max<std::uint64_t>(kPart / weight, 1);
  rowPool().share(numel, size, function);
}

}  // namespace switchml_delegate
