#include "sum/delegation.hpp"

#include <algorithm>

namespace switchml_delegate {
namespace {

std::uint64_t ceilDivide(std::uint64_t whole, std::uint64_t part) {
  return whole / part + (whole % part == 0 ? 0 : 1);
}

}  // namespace

bool Delegation::owns(const void* context) const noexcept {
  return std::find(contexts.begin(), contexts.end(), context) != contexts.end();
}

std::uint64_t Delegation::quantizedNumel(const Request& request) const {
  return request.element == Element::kInt32 ? 0 : settings.quantization.numel(request.numel);
}

std::uint64_t Delegation::bucketsOfJob() const {
  const auto bucket = static_cast<std::uint64_t>(settings.quantization.bucket);
  return std::max<std::uint64_t>(settings.chunkNumel / bucket, 1);
}

std::uint64_t Delegation::jobsOf(const Request& request) const {
  const auto quantized = quantizedNumel(request);
  const auto bucket = static_cast<std::uint64_t>(settings.quantization.bucket);
  return (quantized == 0 ? 0 : 1 + ceilDivide(ceilDivide(quantized, bucket), bucketsOfJob())) +
         ceilDivide(request.numel - quantized, settings.chunkNumel);
}

}  // namespace switchml_delegate
