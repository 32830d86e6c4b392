/// Sums in fewer bits, for tensors in host memory: base/quantize.hpp on torch's threads.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstdint>

#include "base/quantize.hpp"

namespace switchml_delegate {

/// Format of a layer that is sent, and its size; see quantize::Format. Tensors are contiguous, in
/// host memory, and of one layer. Arguments that do not fit raise c10::Error.
class QuantizedLayer {
 public:
  QuantizedLayer(std::int64_t numel, std::int64_t bits, std::int64_t ranks, std::int64_t bucket,
                 bool stochastic)
      : format_{static_cast<unsigned>(bits), static_cast<std::uint32_t>(ranks),
                static_cast<std::size_t>(bucket), stochastic},
        numel_(numel) {
    TORCH_CHECK(bits >= 1 && bits <= quantize::kMostBits, "bits: ", bits);
    TORCH_CHECK(ranks >= 1 && ranks <= quantize::kMostRanks, "ranks: ", ranks);
    TORCH_CHECK(bucket >= 1 && bucket <= kMostBucket, "bucket: ", bucket);
    TORCH_CHECK(numel >= 0, "numel: ", numel);
  }

  std::int64_t scales() const {
    return static_cast<std::int64_t>(format_.buckets(static_cast<std::size_t>(numel_)));
  }
  std::int64_t words() const {
    return static_cast<std::int64_t>(format_.words(static_cast<std::size_t>(numel_)));
  }

  /// Writes the scales, int32 [scales()], of values, float32 [numel].
  void largest(const at::Tensor& values, const at::Tensor& scales) const {
    const auto* const from = data<const float>(values, numel_);
    auto* const to = data<std::int32_t>(scales, this->scales());
    inParts([&](quantize::Range range) {
      quantize::largest(format_, from, static_cast<std::size_t>(numel_), to, range);
    });
  }

  /// Writes the words, int32 [words()]. With `keep`, what was rounded off takes the place of the
  /// values.
  void encode(const at::Tensor& values, const at::Tensor& scales, const at::Tensor& words,
              bool keep, std::uint64_t key) const {
    auto* const from = data<float>(values, numel_);
    const auto* const by = data<const std::int32_t>(scales, this->scales());
    auto* const to = reinterpret_cast<std::uint32_t*>(data<std::int32_t>(words, this->words()));
    const auto numel = static_cast<std::size_t>(numel_);
    inParts([&](quantize::Range range) {
      if (keep) {
        quantize::encode(format_, from, numel, by, key, to, range);
      } else {
        quantize::encode(format_, static_cast<const float*>(from), numel, by, key, to, range);
      }
    });
  }

  /// Writes the values from the sums of the words, divided by `divisor`.
  void decode(const at::Tensor& words, const at::Tensor& scales, const at::Tensor& values,
              std::int64_t divisor) const {
    TORCH_CHECK(divisor >= 1 && divisor <= quantize::kMostRanks, "divisor: ", divisor);
    const auto* const from =
        reinterpret_cast<const std::uint32_t*>(data<const std::int32_t>(words, this->words()));
    const auto* const by = data<const std::int32_t>(scales, this->scales());
    auto* const to = data<float>(values, numel_);
    inParts([&](quantize::Range range) {
      quantize::decode(format_, from, by, static_cast<std::uint32_t>(divisor), to,
                       static_cast<std::size_t>(numel_), range);
    });
  }

 private:
  static constexpr std::int64_t kMostBucket = std::int64_t{1} << 31;
  static constexpr std::int64_t kGrain = 1 << 15;  // values that are worth a thread

  template <typename T>
  static T* data(const at::Tensor& tensor, std::int64_t numel) {
    using Plain = std::remove_const_t<T>;
    TORCH_CHECK(tensor.is_cpu() && tensor.is_contiguous() && tensor.numel() == numel,
                "a contiguous tensor of ", numel, " elements in host memory is needed");
    return tensor.data_ptr<Plain>();  // checks the type
  }

  template <typename Step>
  void inParts(const Step& step) const {
    const auto bucket = static_cast<std::int64_t>(format_.bucket);
    at::parallel_for(
        0, scales(), (kGrain + bucket - 1) / bucket,
        [&step](std::int64_t first, std::int64_t last) {
          step(quantize::Range{static_cast<std::size_t>(first), static_cast<std::size_t>(last)});
        });
  }

  const quantize::Format format_;
  const std::int64_t numel_;
};

}  // namespace switchml_delegate
