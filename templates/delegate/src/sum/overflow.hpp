/// Marks of float32 values that SwitchML's fixed point cannot represent.
#pragma once

#include <cmath>
#include <cstdint>

#include "SwitchMLInterface.hpp"

namespace switchml_delegate {

/// Marks of overflow in a row of floats.
///
/// Fixed point has no inf and no NaN, and makes finite numbers of them. A packet that holds 2^126
/// gets the exponent 127, which every worker turns into a scale of 0 and NaN for the whole packet.
/// So set() replaces each value of that magnitude or more, inf and NaN by 2^126.
///
/// The thread of the call uses it, and shares the work with rowPool().
struct OverflowMarks {
  /// The mark: the least magnitude that fixed point cannot represent.
  static constexpr float kMark = 0x1p126F;

  static bool overflows(float value) noexcept { return !(std::fabs(value) < kMark); }

  /// Marks the row; returns whether there was anything to mark. If `fill` is set it copies the
  /// values into the row first, from element `first` of its own row on, in pieces that are marked
  /// while they are in the cache.
  bool set(std::uint64_t numel, std::uint64_t first, const PartCallbacks::Callback& fill) const;

  /// Replaces marks by NaN, for a sum of floats over Gloo: the client library's sum would be NaN.
  void toNaN(std::uint64_t numel) const;

  float* values;
};

}  // namespace switchml_delegate
