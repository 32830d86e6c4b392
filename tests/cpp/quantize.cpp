// Sums a layer in fewer bits: reads cases from standard input, and writes what came out.
//
// A case is the numbers of `Case`, then the values of each rank. Written back are the scales, the
// words as they are summed, the decoded values, and where they are kept, what each rank rounded
// off. Every array has exactly its size, so that a sanitizer sees what goes beyond it.

#include "base/quantize.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

namespace quantize = switchml_delegate::quantize;

struct Case {
  std::uint64_t bits, ranks, bucket, stochastic, keep, divisor, key, parts, halve, numel;
};

template <typename T>
bool take(T* values, std::size_t count) {
  return count == 0 || std::fread(values, sizeof(T), count, stdin) == count;
}

template <typename T>
void give(const std::vector<T>& values) {
  if (std::fwrite(values.data(), sizeof(T), values.size(), stdout) != values.size()) {
    std::exit(1);
  }
}

/// Calls `step` for all buckets, in so many parts, the last one first.
template <typename Step>
void inParts(std::size_t buckets, std::size_t parts, Step step) {
  for (std::size_t part = parts; part-- > 0;) {
    step(quantize::Range{buckets * part / parts, buckets * (part + 1) / parts});
  }
}

void sum(const Case& one) {
  const quantize::Format format{static_cast<unsigned>(one.bits),
                                static_cast<std::uint32_t>(one.ranks), one.bucket,
                                one.stochastic != 0};
  const std::size_t buckets = format.buckets(one.numel);
  std::vector<std::int32_t> scales(buckets);
  std::vector<std::uint32_t> sums(format.words(one.numel));
  std::vector<std::vector<float>> values(one.ranks, std::vector<float>(one.numel));
  for (auto& mine : values) {
    if (!take(mine.data(), mine.size())) {
      std::exit(2);
    }
    std::vector<std::int32_t> own(buckets);
    inParts(buckets, one.parts, [&](quantize::Range range) {
      quantize::largest(format, mine.data(), mine.size(), own.data(), range);
    });
    std::transform(own.begin(), own.end(), scales.begin(), scales.begin(),
                   [](std::int32_t a, std::int32_t b) { return std::max(a, b); });
  }
  for (auto& scale : scales) {
    scale -= static_cast<std::int32_t>(one.halve << 23);
  }
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    auto& mine = values[rank];
    const float* const unchanged = mine.data();
    std::vector<std::uint32_t> words(sums.size());
    inParts(buckets, one.parts, [&](quantize::Range range) {
      const auto key = one.key + rank;
      if (one.keep != 0) {
        quantize::encode(format, mine.data(), mine.size(), scales.data(), key, words.data(), range);
      } else {
        quantize::encode(format, unchanged, mine.size(), scales.data(), key, words.data(), range);
      }
    });
    for (std::size_t w = 0; w < sums.size(); ++w) {
      sums[w] += words[w];
    }
  }
  std::vector<float> decoded(one.numel);
  inParts(buckets, one.parts, [&](quantize::Range range) {
    quantize::decode(format, sums.data(), scales.data(), static_cast<std::uint32_t>(one.divisor),
                     decoded.data(), decoded.size(), range);
  });
  give(scales);
  give(sums);
  give(decoded);
  if (one.keep != 0) {
    for (const auto& mine : values) {
      give(mine);
    }
  }
}

}  // namespace

int main() {
  for (Case one; take(&one, 1);) {
    sum(one);
  }
}
