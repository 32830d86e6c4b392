// What the search for inf, NaN and values too large costs: saturate BYTES THREADS.
//
// Prints the seconds of a copy of a float32 tensor of so many bytes, of the delegate's search
// through the chunks of it, and of a copy with the search in it, as of a tensor that is converted.
#include <cstdio>
#include <cstring>

#include "SwitchMLAllreduce.cpp"
#include "timing.hpp"

namespace {

using namespace switchml_torch;

constexpr std::uint64_t kChunk = 1U << 20U;  // the default of SWITCHML_CHUNK_NUMEL

template <typename Step>
double bestOfChunks(std::uint64_t numel, const Step& step) {
  return best([&] {
    for (std::uint64_t first = 0; first < numel; first += kChunk) {
      step(first, std::min(first + kChunk, numel));
    }
  });
}

}  // namespace

int main(int, char** arguments) {
  const std::uint64_t numel = std::strtoull(arguments[1], nullptr, 10) / sizeof(float);
  process().threads.start(static_cast<unsigned>(std::atoi(arguments[2])) - 1);
  std::vector<float> values(numel, 1.5F);
  std::vector<float> copies(numel);
  const auto copy = [&](std::uint64_t first, std::uint64_t last) {
    std::memcpy(copies.data() + first, values.data() + first, (last - first) * sizeof(float));
  };
  std::printf("%.9f\n", bestOfChunks(numel, copy));
  std::printf("%.9f\n", bestOfChunks(numel, [&](std::uint64_t first, std::uint64_t last) {
                saturate(values.data() + first, last - first);
              }));
  std::printf("%.9f\n", bestOfChunks(numel, [&](std::uint64_t first, std::uint64_t last) {
                saturate(copies.data(), first, last, copy);
              }));
}
