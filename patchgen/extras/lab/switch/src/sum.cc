#include "sum.h"

#include <cstring>

namespace softswitch {
namespace {

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
inline std::uint32_t FromNetwork(std::uint32_t value) { return __builtin_bswap32(value); }
#else
inline std::uint32_t FromNetwork(std::uint32_t value) { return value; }
#endif

[[gnu::always_inline]] inline void AddAll(std::uint8_t* slot, const std::uint8_t* values,
                                          std::size_t elements) {
  for (std::size_t at = 0; at < elements * 4; at += 4) {
    std::uint32_t held;
    std::uint32_t given;
    std::memcpy(&held, slot + at, 4);
    std::memcpy(&given, values + at, 4);
    held = FromNetwork(FromNetwork(held) + FromNetwork(given));
    std::memcpy(slot + at, &held, 4);
  }
}

// Constant counts, and memory that does not overlap, let the compiler use vectors.
[[gnu::always_inline]] inline void AddLanes(std::uint8_t* __restrict slot,
                                            const std::uint8_t* __restrict values,
                                            std::size_t elements) {
  for (std::size_t lane = 0; lane < elements; lane += kLane) {
    AddAll(slot + lane * 4, values + lane * 4, kLane);
  }
}

[[gnu::always_inline]] inline std::uint64_t SumAll(const std::uint8_t* data, std::size_t bytes) {
  std::uint64_t sum = 0;
  std::size_t at = 0;
  for (; at + 4 <= bytes; at += 4) {
    std::uint32_t word;
    std::memcpy(&word, data + at, 4);
    sum += word;
  }
  for (; at < bytes; at += 2) {
    std::uint16_t word = 0;
    std::memcpy(&word, data + at, bytes - at < 2 ? 1 : 2);
    sum += word;
  }
  return sum;
}

#if defined(__x86_64__)

// Checked at run time, because the same program may run on machines without AVX2.
[[gnu::target("avx2")]] void AddWide(std::uint8_t* slot, const std::uint8_t* values,
                                     std::size_t elements) {
  AddLanes(slot, values, elements);
}

[[gnu::target("avx2")]] std::uint64_t SumWide(const std::uint8_t* data, std::size_t bytes) {
  return SumAll(data, bytes);
}

bool Wide() {
  static const bool wide = __builtin_cpu_supports("avx2") != 0;
  return wide;
}

#endif

}  // namespace

void Add(std::uint8_t* slot, const std::uint8_t* values, std::size_t elements) {
#if defined(__x86_64__)
  if (Wide()) return AddWide(slot, values, elements);
#endif
  AddLanes(slot, values, elements);
}

std::uint64_t SumWords(const std::uint8_t* data, std::size_t bytes) {
#if defined(__x86_64__)
  if (Wide()) return SumWide(data, bytes);
#endif
  return SumAll(data, bytes);
}

}  // namespace softswitch
