// SwitchML's fixed-point arithmetic, as pure functions, which any thread may call.
//
//   1. Each worker finds the exponent of a packet. The largest of all workers is e.
//   2. All workers use the factor INT32_MAX / (num_workers * 2^e), and send round(value * factor).
//   3. The aggregator adds int32.
//   4. The sum divided by the factor is the result.
#ifndef SWITCHML_SRC_QUANTIZE_H_
#define SWITCHML_SRC_QUANTIZE_H_

#include <cstddef>
#include <cstdint>

namespace switchml {

// Greater than every exponent of a finite packet, so that it survives the maximum over workers.
constexpr int16_t kNonFinite = INT16_MAX;

// The least e with |v| < 2^e for all values; -126 if all are zero or subnormal; kNonFinite if one
// is infinite or NaN.
int16_t PacketExponent(const float* values, size_t numel);

// 0 if the packet cannot be represented: its exponent is kNonFinite, or its factor is beyond float.
// Such packets are sent as zeros.
float ScalingFactor(int16_t exponent, uint16_t num_workers);

// Rounds half away from zero. A sum over num_workers of the results never overflows.
void QuantizePacket(const float* values, size_t numel, float factor, uint16_t num_workers,
                    int32_t* quantized);

// Writes zeros if the factor is 0, and quiet NaNs if the exponent is kNonFinite. The real library
// returns arbitrary numbers in these cases, which a test would take for a sum.
void DequantizePacket(const int32_t* sums, size_t numel, float factor, int16_t exponent,
                      float* values);

}  // namespace switchml

#endif  // SWITCHML_SRC_QUANTIZE_H_
