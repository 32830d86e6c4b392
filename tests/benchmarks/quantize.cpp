// Times packing and unpacking in fewer bits beside a copy of the same tensor, on one thread.
//
//   quantize BYTES     prints for each step and pair: its name, its seconds and those of a copy

#include "base/quantize.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "timing.hpp"

namespace quantize = switchml_delegate::quantize;

int main(int, char** arguments) {
  const std::size_t numel = std::strtoull(arguments[1], nullptr, 10) / sizeof(float);
  std::vector<float> values(numel);
  std::vector<float> results(numel);
  std::mt19937 random;
  std::normal_distribution<float> normal;
  std::generate(values.begin(), values.end(), [&] { return normal(random); });
  const float* const given = values.data();

  const auto copy = [&] { std::memcpy(results.data(), given, numel * sizeof(float)); };
  for (const unsigned bits : {8U, 4U, 2U, 1U}) {
    for (const bool stochastic : {false, true}) {
      const quantize::Format format{bits, 8, 512, stochastic};
      const quantize::Range all{0, format.buckets(numel)};
      std::vector<std::int32_t> scales(all.last);
      std::vector<std::uint32_t> words(format.words(numel));
      const auto name = std::to_string(bits) + (stochastic ? "-stochastic-" : "-nearest-");
      compare(
          name + "scales", [&] { quantize::largest(format, given, numel, scales.data(), all); },
          copy);
      compare(
          name + "packing",
          [&] { quantize::encode(format, given, numel, scales.data(), 1, words.data(), all); },
          copy);
      compare(
          name + "unpacking",
          [&] {
            quantize::decode(format, words.data(), scales.data(), 8, results.data(), numel, all);
          },
          copy);
    }
  }
}
