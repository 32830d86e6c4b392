/// Packs and unpacks the values of a layer in fewer bits: base/quantize.hpp on torch's threads.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "base/quantize.hpp"

namespace switchml_delegate {

/// Codec of a layer: see quantize::Format. Tensors are contiguous, in host memory, and of one
/// layer. Arguments that do not fit raise c10::Error.
///
/// Python calls it, in any thread and without Python's lock. It never changes, so there is no
/// mutex.
class QuantizedLayer {
 public:
  QuantizedLayer(std::int64_t numel, std::int64_t bits, std::int64_t ranks, std::int64_t bucket,
                 bool stochastic);

  /// Number of scales, one for each bucket.
  std::int64_t scales() const;
  /// Number of int32 words that carry the values.
  std::int64_t words() const;

  /// Writes the scales, int32 [scales()], of values, float32 [numel].
  void largest(const at::Tensor& values, const at::Tensor& scales) const;

  /// Writes the words, int32 [words()]. With `keep`, the rounding errors replace the values. `key`:
  /// of the random numbers.
  void encode(const at::Tensor& values, const at::Tensor& scales, const at::Tensor& words,
              bool keep, std::uint64_t key) const;

  /// Writes the values from the sums of the words, divided by `divisor`.
  void decode(const at::Tensor& words, const at::Tensor& scales, const at::Tensor& values,
              std::int64_t divisor) const;

 private:
  const quantize::Format format_;
  const std::int64_t numel_;
};

}  // namespace switchml_delegate
