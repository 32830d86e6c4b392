#include "QuantizedLayer.hpp"

#include <ATen/Parallel.h>

#include <cstddef>
#include <type_traits>

namespace switchml_delegate {
namespace {

constexpr std::int64_t kMaxBucket = std::int64_t{1} << 31;
constexpr std::int64_t kGrain = 1 << 15;  // values that are worth a thread

/// Memory of a tensor of type T, which is checked.
template <typename T>
T* dataOf(const at::Tensor& tensor, std::int64_t numel) {
  TORCH_CHECK(tensor.is_cpu() && tensor.is_contiguous() && tensor.numel() == numel,
              "a contiguous tensor of ", numel, " elements in host memory is needed");
  return tensor.data_ptr<std::remove_const_t<T>>();
}

/// Calls `function` with ranges of the buckets, on torch's threads.
template <typename Function>
void inParallel(const quantize::Format& format, std::int64_t buckets, const Function& function) {
  const auto bucket = static_cast<std::int64_t>(format.bucket);
  at::parallel_for(
      0, buckets, (kGrain + bucket - 1) / bucket,
      [&function](std::int64_t first, std::int64_t last) {
        function(quantize::Range{static_cast<std::size_t>(first), static_cast<std::size_t>(last)});
      });
}

}  // namespace

QuantizedLayer::QuantizedLayer(std::int64_t numel, std::int64_t bits, std::int64_t ranks,
                               std::int64_t bucket, bool stochastic)
    : format_{static_cast<unsigned>(bits), static_cast<std::uint32_t>(ranks),
              static_cast<std::size_t>(bucket), stochastic},
      numel_(numel) {
  TORCH_CHECK(bits >= 1 && bits <= quantize::kMaxBits, "bits: ", bits);
  TORCH_CHECK(ranks >= 1 && ranks <= quantize::kMaxRanks, "ranks: ", ranks);
  TORCH_CHECK(bucket >= 1 && bucket <= kMaxBucket, "bucket: ", bucket);
  TORCH_CHECK(numel >= 0, "numel: ", numel);
}

std::int64_t QuantizedLayer::scales() const {
  return static_cast<std::int64_t>(format_.buckets(static_cast<std::size_t>(numel_)));
}

std::int64_t QuantizedLayer::words() const {
  return static_cast<std::int64_t>(format_.words(static_cast<std::size_t>(numel_)));
}

void QuantizedLayer::largest(const at::Tensor& values, const at::Tensor& scales) const {
  const auto* const from = dataOf<const float>(values, numel_);
  auto* const to = dataOf<std::int32_t>(scales, this->scales());
  inParallel(format_, this->scales(), [&](quantize::Range range) {
    quantize::largest(format_, from, static_cast<std::size_t>(numel_), to, range);
  });
}

void QuantizedLayer::encode(const at::Tensor& values, const at::Tensor& scales,
                            const at::Tensor& words, bool keep, std::uint64_t key) const {
  auto* const from = dataOf<float>(values, numel_);
  const auto* const by = dataOf<const std::int32_t>(scales, this->scales());
  auto* const to = reinterpret_cast<std::uint32_t*>(dataOf<std::int32_t>(words, this->words()));
  const auto numel = static_cast<std::size_t>(numel_);
  inParallel(format_, this->scales(), [&](quantize::Range range) {
    if (keep) {
      quantize::encode(format_, from, numel, by, key, to, range);
    } else {
      quantize::encode(format_, static_cast<const float*>(from), numel, by, key, to, range);
    }
  });
}

void QuantizedLayer::decode(const at::Tensor& words, const at::Tensor& scales,
                            const at::Tensor& values, std::int64_t divisor) const {
  TORCH_CHECK(divisor >= 1 && divisor <= quantize::kMaxRanks, "divisor: ", divisor);
  const auto* const from =
      reinterpret_cast<const std::uint32_t*>(dataOf<const std::int32_t>(words, this->words()));
  const auto* const by = dataOf<const std::int32_t>(scales, this->scales());
  auto* const to = dataOf<float>(values, numel_);
  inParallel(format_, this->scales(), [&](quantize::Range range) {
    quantize::decode(format_, from, by, static_cast<std::uint32_t>(divisor), to,
                     static_cast<std::size_t>(numel_), range);
  });
}

}  // namespace switchml_delegate
