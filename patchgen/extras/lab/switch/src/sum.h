// Arithmetic on the values of packets, which are integers of 32 bits in network order.
#ifndef SOFTSWITCH_SUM_H_
#define SOFTSWITCH_SUM_H_

#include <cstddef>
#include <cstdint>

namespace softswitch {

// All numbers of elements are multiples of this.
constexpr std::size_t kLane = 64;

// Adds `elements` values to those of a slot. Sums wrap. Both are in network order.
void Add(std::uint8_t* slot, const std::uint8_t* values, std::size_t elements);

// The sum of the 16-bit words of some bytes, as Internet checksums have it, neither folded nor
// inverted, in the byte order of this machine.
std::uint64_t SumWords(const std::uint8_t* data, std::size_t bytes);

}  // namespace softswitch

#endif  // SOFTSWITCH_SUM_H_
