/// Sums in fewer bits: float32 values become levels of a few bits, which are packed into int32
/// words whose plain sum over the ranks is the packed sum of the levels.
///
/// The values of a layer are cut into buckets; the values of a bucket share a scale. Before values
/// are packed, the ranks agree on each scale: the largest over all ranks, as an int32 (see
/// `largest`). A rank rounds a value to a multiple of its bucket's unit, scale / highest. The
/// multiple, from -highest to highest, is sent as a level that is not negative, so lanes never
/// borrow from each other:
///
///   2 to 8 bits   highest = 2^(bits - 1) - 1, and the level is the multiple + highest
///   1 bit         highest = 1, and the level is 1 for values from 0 on, 0 below: only the sign is
///                 sent, so the scale is the mean of the magnitudes
///
/// A word has as many lanes of bits + ceil(log2(ranks)) bits as fit, so a lane holds the sum of the
/// ranks' levels. Word w of a bucket of W words has the values w, w + W, w + 2 W, ... of the bucket
/// in its lanes, from the least significant one on. Buckets share no word.
///
/// Knows nothing of torch or SwitchML. A header only, because the plugin compiles it as well.
/// Compile it without contraction of floating point (-ffp-contract=off): else ranks with other
/// processors round differently in the last bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(SWITCHML_WITHOUT_AVX2)
#define SWITCHML_AVX2 1
#endif
#define SWITCHML_INLINE inline __attribute__((always_inline))

namespace switchml_delegate {
namespace quantize {

constexpr unsigned kMaxBits = 8;
constexpr std::uint32_t kMaxRanks = 1U << 16;  // so that sums of multiples are exact in float32

/// Format of a layer that is sent, the same on all ranks. `bits` is 1 to 8, `ranks` 1 to 2^16, and
/// `bucket`, the number of values that share a scale, at least 1.
struct Format {
  unsigned bits;
  std::uint32_t ranks;
  std::size_t bucket;
  bool stochastic;  // round up or down at random, so that the mean is right

  constexpr unsigned laneBits() const {
    unsigned more = 0;
    while ((std::uint64_t{1} << more) < ranks) {
      ++more;
    }
    return bits + more;
  }
  constexpr unsigned lanes() const { return 32 / laneBits(); }
  constexpr std::uint32_t mask() const { return UINT32_MAX >> (32 - laneBits()); }
  constexpr std::int32_t highest() const { return bits == 1 ? 1 : (1 << (bits - 1)) - 1; }
  /// Distance of two levels, in multiples of the unit.
  constexpr std::int32_t step() const { return bits == 1 ? 2 : 1; }

  constexpr std::size_t buckets(std::size_t numel) const { return (numel + bucket - 1) / bucket; }
  /// Words of a bucket that has `numel` values.
  constexpr std::size_t bucketWords(std::size_t numel) const {
    return (numel + lanes() - 1) / lanes();
  }
  /// Words of a layer.
  constexpr std::size_t words(std::size_t numel) const {
    return numel / bucket * bucketWords(bucket) + bucketWords(numel % bucket);
  }
};

/// Buckets of a layer, from `first` to before `last`.
struct Range {
  std::size_t first;
  std::size_t last;
};

namespace detail {

constexpr std::int32_t kInfinity = 0x7f800000;
constexpr std::int32_t kMagnitude = 0x7fffffff;

SWITCHML_INLINE std::int32_t bitsOf(float value) {
  std::int32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

SWITCHML_INLINE float valueOf(std::int32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

#ifdef SWITCHML_AVX2
template <typename Body>
__attribute__((target("avx2"))) void onAvx2(const Body& body) {
  body();
}
#endif

/// Runs `body` with the widest vectors of this processor. All functions that `body` calls must be
/// inline.
template <typename Body>
void run(const Body& body) {
#ifdef SWITCHML_AVX2
  if (__builtin_cpu_supports("avx2")) {
    return onAvx2(body);
  }
#endif
  body();
}

/// Returns the bits of the largest magnitude. Magnitudes have the order of their bits, NaN above
/// inf.
SWITCHML_INLINE std::int32_t largestBits(const float* values, std::size_t numel) {
  std::int32_t most = 0;
  for (std::size_t i = 0; i < numel; ++i) {
    const std::int32_t magnitude = bitsOf(values[i]) & kMagnitude;
    most = magnitude > most ? magnitude : most;
  }
  return most;
}

/// Returns the bits of the mean of the magnitudes. Adds in eight sums; their order decides how the
/// result is rounded.
SWITCHML_INLINE std::int32_t meanBits(const float* values, std::size_t numel) {
  constexpr std::size_t kSums = 8;
  double sums[kSums] = {};
  std::size_t i = 0;
  for (; i + kSums <= numel; i += kSums) {
    for (std::size_t k = 0; k < kSums; ++k) {
      sums[k] += std::fabs(static_cast<double>(values[i + k]));
    }
  }
  for (std::size_t k = 0; i < numel; ++i, ++k) {
    sums[k] += std::fabs(static_cast<double>(values[i]));
  }
  double sum = 0;
  for (const double part : sums) {
    sum += part;
  }
  return bitsOf(static_cast<float>(sum / static_cast<double>(numel))) & kMagnitude;
}

/// A scale as factors. A scale below 2^-64 is multiplied by 2^64, because its reciprocal may not be
/// a float.
struct Factors {
  SWITCHML_INLINE explicit Factors(std::int32_t bits)
      : up(valueOf(bits) < 0x1p-64F ? 0x1p64F : 1.0F), down(1.0F / up), scale(valueOf(bits) * up) {}
  float up;
  float down;
  float scale;
};

/// Returns whether the values of a bucket are not sent: all are 0, or one of them is inf or NaN.
SWITCHML_INLINE bool empty(std::int32_t scale) { return scale <= 0 || scale >= kInfinity; }

SWITCHML_INLINE std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// Returns a random number between -1/2 and 1/2, both excluded, for a position in a bucket.
SWITCHML_INLINE float random(std::uint64_t key, std::uint32_t position) {
  const auto low = static_cast<std::uint32_t>(key);
  const auto high = static_cast<std::uint32_t>(key >> 32);
  std::uint32_t x = position + low;
  x = (x ^ (x >> 16)) * 0x85ebca6bU ^ high;
  x = (x ^ (x >> 13)) * 0xc2b2ae35U;
  const auto drawn = static_cast<std::int32_t>((x ^ (x >> 16)) >> 9);
  return (static_cast<float>(drawn - (1 << 22)) + 0.5F) * 0x1p-23F;
}

/// Returns the level of a value, which is given in units.
template <bool kOneBit, bool kStochastic>
SWITCHML_INLINE std::int32_t levelOf(float units, float highest, std::uint64_t key,
                                     std::uint32_t position) {
  constexpr float kRounder = 0x1.8p23F;  // added, it leaves the nearest integer, halves to even
  if (kStochastic) {
    units += random(key, position) * (kOneBit ? 2.0F : 1.0F);
  }
  if (kOneBit) {
    return units >= 0 ? 1 : 0;
  }
  units = units < highest ? units : highest;  // NaN too: a lane must not overflow
  units = units > -highest ? units : -highest;
  return bitsOf(units + kRounder) - bitsOf(kRounder) + static_cast<std::int32_t>(highest);
}

/// Packs a bucket. If `Value` is float, replaces the values by their rounding errors.
template <bool kOneBit, bool kStochastic, typename Value>
SWITCHML_INLINE void encodeBucket(const Format& format, Value* values, std::size_t numel,
                                  std::int32_t bits, std::uint64_t key,
                                  std::uint32_t* __restrict__ words) {
  constexpr bool kKeep = !std::is_const<Value>::value;
  const std::size_t width = format.bucketWords(numel);
  std::fill_n(words, width, 0U);
  if (empty(bits)) {
    if constexpr (kKeep) {
      std::fill_n(values, numel, 0.0F);
    }
    return;
  }
  const Factors factors(bits);
  const auto highest = static_cast<float>(format.highest());
  const float inverse = highest / factors.scale;
  const float unit = factors.scale / highest;
  const std::int32_t step = kOneBit ? 2 : 1;
  const unsigned lane = format.laneBits();
  for (std::size_t begin = 0, shift = 0; begin < numel; begin += width, shift += lane) {
    const std::size_t count = std::min(width, numel - begin);
    Value* const part = values + begin;
    for (std::size_t w = 0; w < count; ++w) {
      const float units = part[w] * factors.up * inverse;
      const std::int32_t level =
          levelOf<kOneBit, kStochastic>(units, highest, key, static_cast<std::uint32_t>(begin + w));
      if constexpr (kKeep) {
        const auto multiple = static_cast<float>(level * step - format.highest());
        part[w] -= multiple * unit * factors.down;
      }
      words[w] |= static_cast<std::uint32_t>(level) << shift;
    }
  }
}

SWITCHML_INLINE void decodeBucket(const Format& format, const std::uint32_t* words,
                                  std::int32_t bits, std::uint32_t divisor,
                                  float* __restrict__ values, std::size_t numel) {
  if (empty(bits)) {
    const bool lost = bits >= kInfinity;
    std::fill_n(values, numel, lost ? std::numeric_limits<float>::quiet_NaN() : 0.0F);
    return;
  }
  const Factors factors(bits);
  const auto highest = static_cast<float>(format.highest());
  const float unit = factors.scale / (highest * static_cast<float>(divisor));
  const std::int32_t step = format.step();
  const auto bias = static_cast<std::int32_t>(format.ranks) * format.highest();
  const std::uint32_t mask = format.mask();
  const unsigned lane = format.laneBits();
  const std::size_t width = format.bucketWords(numel);
  for (std::size_t begin = 0, shift = 0; begin < numel; begin += width, shift += lane) {
    const std::size_t count = std::min(width, numel - begin);
    float* const part = values + begin;
    for (std::size_t w = 0; w < count; ++w) {
      const auto sum = static_cast<std::int32_t>(words[w] >> shift & mask);
      part[w] = static_cast<float>(sum * step - bias) * unit * factors.down;
    }
  }
}

template <bool kOneBit, bool kStochastic, typename Value>
void encode(const Format& format, Value* values, std::size_t numel, const std::int32_t* scales,
            std::uint64_t key, std::uint32_t* words, Range range) {
  run([=]() __attribute__((always_inline)) {
    for (std::size_t bucket = range.first; bucket < range.last; ++bucket) {
      const std::size_t begin = bucket * format.bucket;
      encodeBucket<kOneBit, kStochastic>(format, values + begin,
                                         std::min(format.bucket, numel - begin), scales[bucket],
                                         mixed(key + bucket * 0x9e3779b97f4a7c15U),
                                         words + bucket * format.bucketWords(format.bucket));
    }
  });
}

}  // namespace detail

/// Returns the largest magnitude; NaN if one of the values is.
inline float largest(const float* values, std::size_t numel) {
  std::int32_t most = 0;
  detail::run([ =, &most ]()
                  __attribute__((always_inline)) { most = detail::largestBits(values, numel); });
  return detail::valueOf(most);
}

/// Writes the scale of each bucket: the bits of a float that is not negative. So the maximum of the
/// ranks' int32 values is the largest scale, or NaN if a rank has inf or NaN. The scale is the
/// largest magnitude; with one bit that is not stochastic, the mean of the magnitudes.
inline void largest(const Format& format, const float* values, std::size_t numel,
                    std::int32_t* scales, Range range) {
  const bool mean = format.bits == 1 && !format.stochastic;
  detail::run([=]() __attribute__((always_inline)) {
    for (std::size_t bucket = range.first; bucket < range.last; ++bucket) {
      const std::size_t begin = bucket * format.bucket;
      const std::size_t count = std::min(format.bucket, numel - begin);
      scales[bucket] = mean ? detail::meanBits(values + begin, count)
                            : detail::largestBits(values + begin, count);
    }
  });
}

/// Rounds and packs the buckets of `range`, by the scales that all ranks have agreed on. A bucket
/// whose values are all 0, or include inf or NaN, is packed as zeros.
///
/// `values`, `scales` and `words` are those of the whole layer. If `Value` is float, the rounding
/// errors replace the values; they are 0 in buckets with inf or NaN. `key` is for stochastic
/// rounding, and differs between ranks, layers and steps.
template <typename Value>
void encode(const Format& format, Value* values, std::size_t numel, const std::int32_t* scales,
            std::uint64_t key, std::uint32_t* words, Range range) {
  auto* const one =
      format.stochastic ? detail::encode<true, true, Value> : detail::encode<true, false, Value>;
  auto* const several =
      format.stochastic ? detail::encode<false, true, Value> : detail::encode<false, false, Value>;
  (format.bits == 1 ? one : several)(format, values, numel, scales, key, words, range);
}

/// Unpacks the buckets of `range` from the sums of the ranks' words, and divides by `divisor`: 1
/// for the sum, the number of ranks for the mean. Buckets in which a rank has inf or NaN become
/// NaN.
inline void decode(const Format& format, const std::uint32_t* words, const std::int32_t* scales,
                   std::uint32_t divisor, float* values, std::size_t numel, Range range) {
  detail::run([=]() __attribute__((always_inline)) {
    for (std::size_t bucket = range.first; bucket < range.last; ++bucket) {
      const std::size_t begin = bucket * format.bucket;
      detail::decodeBucket(format, words + bucket * format.bucketWords(format.bucket),
                           scales[bucket], divisor, values + begin,
                           std::min(format.bucket, numel - begin));
    }
  });
}

}  // namespace quantize
}  // namespace switchml_delegate

#undef SWITCHML_INLINE
#undef SWITCHML_AVX2
