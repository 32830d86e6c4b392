// What the search for inf, NaN and values too large costs: saturate BYTES.
//
// Prints the seconds of a copy of a float32 tensor of so many bytes, of the delegate's search
// through it, and of the search on one thread.
#include <cstdio>
#include <cstring>

#include "SwitchMLAllreduce.cpp"
#include "timing.hpp"

int main(int, char** arguments) {
  constexpr std::uint64_t kAlone = 1U << 20U;  // too short for a second thread
  const std::uint64_t numel = std::strtoull(arguments[1], nullptr, 10) / sizeof(float);
  std::vector<float> values(numel, 1.5F);
  std::vector<float> copies(numel);
  std::printf("%.9f\n",
              best([&] { std::memcpy(copies.data(), values.data(), numel * sizeof(float)); }));
  std::printf("%.9f\n", best([&] { switchml_torch::saturate(values.data(), numel); }));
  std::printf("%.9f\n", best([&] {
                for (std::uint64_t first = 0; first < numel; first += kAlone) {
                  switchml_torch::saturate(values.data() + first, std::min(kAlone, numel - first));
                }
              }));
}
