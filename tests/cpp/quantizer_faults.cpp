// How the real client library rounds values for the switch: each must be the integer that is
// nearest to the value times its factor, negative ones as well. Ends with 0 where it is.
#include <arpa/inet.h>
#include <cpu_exponent_quantizer_ppp.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
  constexpr std::size_t kNumel = 64;
  constexpr std::uint64_t kPackets = 4;
  switchml::Config config;
  config.general_.num_workers = 3;
  std::vector<float> in(kNumel * kPackets), out(in.size());
  for (std::size_t i = 0; i < 2 * kNumel; ++i) {
    in[i] = static_cast<float>((i % 2 == 0 ? 1.0 : -1.0) * static_cast<double>(i) / 7);
  }
  in[2 * kNumel] = -1e-38F;  // a factor that no float has, and then a packet of zeros
  switchml::JobSlice slice;
  slice.slice.in_ptr = in.data();
  slice.slice.out_ptr = out.data();
  slice.slice.numel = in.size();
  slice.slice.data_type = switchml::FLOAT32;
  switchml::CpuExponentQuantizerPPP quantizer(config, 0, kNumel * sizeof(float), kPackets);
  if (quantizer.SetupJobSlice(&slice) != kPackets) {
    return 2;
  }
  for (std::uint64_t packet = 0; packet < kPackets; ++packet) {
    std::int32_t values[kNumel] = {};
    std::int16_t exponents = 0;
    quantizer.PreprocessSingle(packet, values, &exponents);
    quantizer.PostprocessSingle(packet, values, &exponents);
    const int exponent = static_cast<std::int8_t>(exponents & 0xff);
    quantizer.PreprocessSingle(packet + kPackets, values, &exponents);
    const auto factor = static_cast<float>(INT32_MAX / (3 * std::pow(2.0, exponent)));
    for (std::size_t i = 0; i < kNumel; ++i) {
      const auto sent = static_cast<std::int32_t>(ntohl(static_cast<std::uint32_t>(values[i])));
      const float scaled = in[packet * kNumel + i] * factor;
      const long wanted = std::isfinite(scaled) ? std::lround(scaled) : 0;
      if (sent != wanted) {
        std::fprintf(stderr, "%g becomes %d, not %ld\n", in[packet * kNumel + i], sent, wanted);
        return 1;
      }
    }
  }
  return 0;
}
