// SwitchML's fixed-point arithmetic, as pure functions.
//
// A packet has one exponent e, the largest of all workers', and one factor
// INT32_MAX / (num_workers * 2^e). Workers send round(value * factor), the aggregator adds int32,
// and the sum divided by the factor is the result.
#ifndef SWITCHML_SRC_QUANTIZE_H_
#define SWITCHML_SRC_QUANTIZE_H_

#include <cstddef>
#include <cstdint>

namespace switchml {

// Greater than every exponent of a finite packet, so that it survives the maximum over workers.
constexpr int16_t kNonFinite = INT16_MAX;

// The least e with |v| < 2^e for all values; -126 where all are zero or subnormal; kNonFinite where
// one is infinite or NaN.
int16_t PacketExponent(const float* values, size_t numel);

// 0 where the packet cannot be represented: kNonFinite, or a factor beyond float. Such packets are
// sent as zeros.
float ScalingFactor(int16_t exponent, uint16_t num_workers);

// Rounds half away from zero. A sum over num_workers of the results never overflows.
void QuantizePacket(const float* values, size_t numel, float factor, uint16_t num_workers,
                    int32_t* quantized);

// Zeros where the factor is 0, and quiet NaNs where the packet is kNonFinite: the real library
// returns arbitrary numbers there, which a test would take for a sum.
void DequantizePacket(const int32_t* sums, size_t numel, float factor, int16_t exponent,
                      float* values);

}  // namespace switchml

#endif  // SWITCHML_SRC_QUANTIZE_H_
