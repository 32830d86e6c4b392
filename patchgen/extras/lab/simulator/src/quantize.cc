#include "quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace switchml {

int16_t PacketExponent(const float* values, size_t numel) {
  uint32_t largest = 0;
  for (size_t i = 0; i < numel; ++i) {
    uint32_t bits;
    std::memcpy(&bits, &values[i], sizeof bits);
    // Magnitudes of floats are ordered as their bits are.
    largest = std::max(largest, bits & 0x7fffffffU);
  }
  const uint32_t field = largest >> 23;
  return field == 255 ? kNonFinite : static_cast<int16_t>(static_cast<int>(field) - 126);
}

float ScalingFactor(int16_t exponent, uint16_t num_workers) {
  if (exponent == kNonFinite) {
    return 0;
  }
  // 2^e as double: as float it would be infinite from 2^128 on, where values are still finite.
  const double factor = INT32_MAX / (num_workers * std::ldexp(1.0, exponent));
  return factor <= std::numeric_limits<float>::max() ? static_cast<float>(factor) : 0;
}

void QuantizePacket(const float* values, size_t numel, float factor, uint16_t num_workers,
                    int32_t* quantized) {
  if (factor == 0) {
    std::fill_n(quantized, numel, 0);
    return;
  }
  const double limit = INT32_MAX / num_workers;  // reached with more than 256 workers only
  for (size_t i = 0; i < numel; ++i) {
    const float scaled = values[i] * factor;
    // In double, 0.5 is added without rounding.
    const double half = std::copysign(0.5, static_cast<double>(scaled));
    const double bounded = std::min(limit, std::max(-limit, scaled + half));
    quantized[i] = static_cast<int32_t>(bounded);
  }
}

void DequantizePacket(const int32_t* sums, size_t numel, float factor, int16_t exponent,
                      float* values) {
  if (factor == 0) {
    std::fill_n(values, numel,
                exponent == kNonFinite ? std::numeric_limits<float>::quiet_NaN() : 0.0F);
    return;
  }
  for (size_t i = 0; i < numel; ++i) {
    values[i] = static_cast<float>(sums[i]) / factor;
  }
}

}  // namespace switchml
