// Sums float32 packets as the simulator does: argv is NUM_WORKERS PACKET_NUMEL, stdin holds every
// packet of worker 0, then of worker 1 and so on, stdout is given the sums.
#include <algorithm>
#include <cstring>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "quantize.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    return 2;
  }
  const auto workers = static_cast<uint16_t>(std::stoi(argv[1]));
  const size_t packet = std::stoul(argv[2]);
  const std::string bytes((std::istreambuf_iterator<char>(std::cin)), {});
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  const size_t numel = values.size() / workers;

  std::vector<float> results(numel);
  for (size_t begin = 0; begin < numel; begin += packet) {
    const size_t count = std::min(packet, numel - begin);
    int16_t exponent = INT16_MIN;
    for (size_t worker = 0; worker < workers; ++worker) {
      exponent =
          std::max(exponent, switchml::PacketExponent(&values[worker * numel + begin], count));
    }
    const float factor = switchml::ScalingFactor(exponent, workers);
    std::vector<int32_t> sums(count);
    std::vector<int32_t> part(count);
    for (size_t worker = 0; worker < workers; ++worker) {
      switchml::QuantizePacket(&values[worker * numel + begin], count, factor, workers,
                               part.data());
      for (size_t i = 0; i < count; ++i) {
        sums[i] += part[i];  // an overflow here is one for UBSan to report
      }
    }
    switchml::DequantizePacket(sums.data(), count, factor, exponent, &results[begin]);
  }
  std::cout.write(reinterpret_cast<const char*>(results.data()),
                  static_cast<std::streamsize>(numel * sizeof(float)));
  return 0;
}
