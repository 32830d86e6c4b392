// The probe without a library: right sums, made as SwitchML makes them, are accepted, and what a
// switch or a client may do wrongly is not. Prints ok.
#include "join/probe.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "check.hpp"

using switchml_delegate::Probe;

namespace {

constexpr std::uint64_t kPacket = 64;
constexpr std::uint64_t kNumel = 40 * kPacket + 1;
constexpr std::uint64_t kSeed = 0x0123456789abcdef;

template <typename Value>
using Tensors = std::vector<std::vector<Value>>;

template <typename Value>
Tensors<Value> patterns(std::uint32_t ranks, std::uint64_t seed = kSeed) {
  Tensors<Value> all(ranks, std::vector<Value>(kNumel));
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    Probe(rank, ranks, kPacket, seed).fill(all[rank]);
  }
  return all;
}

std::vector<std::int32_t> summed(const Tensors<std::int32_t>& all) {
  std::vector<std::int32_t> sums(kNumel);
  for (std::uint64_t i = 0; i < kNumel; ++i) {
    std::uint32_t sum = 0;
    for (const auto& one : all) {
      sum += static_cast<std::uint32_t>(one[i]);
    }
    sums[i] = static_cast<std::int32_t>(sum);
  }
  return sums;
}

/// The fixed point of the library: a factor for each packet, from the largest exponent in it.
/// `shift` is added to the exponents.
std::vector<float> summed(const Tensors<float>& all, int shift = 0) {
  std::vector<float> sums(kNumel);
  const auto ranks = static_cast<float>(all.size());
  for (std::uint64_t begin = 0; begin < kNumel; begin += kPacket) {
    const auto end = std::min(begin + kPacket, kNumel);
    float largest = 0;
    for (const auto& one : all) {
      for (auto i = begin; i < end; ++i) {
        largest = std::max(largest, std::fabs(one[i]));
      }
    }
    int exponent = 0;
    std::frexp(largest, &exponent);
    const auto factor = static_cast<float>(static_cast<double>(INT32_MAX) /
                                           (ranks * std::exp2f(static_cast<float>(exponent))));
    const auto back =
        static_cast<float>(static_cast<double>(INT32_MAX) /
                           (ranks * std::exp2f(static_cast<float>(exponent + shift))));
    for (auto i = begin; i < end; ++i) {
      std::int64_t sum = 0;
      for (const auto& one : all) {
        sum += static_cast<std::int64_t>(std::round(one[i] * factor));
      }
      check(std::abs(sum) <= INT32_MAX, "the fixed point does not overflow");
      sums[i] = static_cast<float>(static_cast<std::int32_t>(sum)) / back;
    }
  }
  return sums;
}

template <typename Value>
void wrongs(std::uint32_t ranks, const std::string& name) {
  const Probe probe(0, ranks, kPacket, kSeed);
  const auto all = patterns<Value>(ranks);
  const auto right = summed(all);
  check(probe.mismatch(right).empty(), name + ": " + probe.mismatch(right));
  const auto refuses = [&](const std::vector<Value>& sums, const std::string& what) {
    check(!probe.mismatch(sums).empty(), name + " notices " + what);
  };
  refuses(std::vector<Value>(kNumel), "that nothing was written");
  const std::uint32_t step = ranks <= 32 ? 1 : 27;  // the work grows with the square
  for (std::uint32_t rank = 0; rank < ranks; rank += step) {
    refuses(all[rank], "that nothing was summed, or one rank alone");
    auto twice = all;
    twice.push_back(all[rank]);
    twice.erase(twice.begin() + (rank + 1) % ranks);
    refuses(ranks == 1 ? std::vector<Value>(kNumel, Value{1}) : summed(twice),
            "one rank in the place of another");
  }
  auto moved = right;
  std::rotate(moved.begin(), moved.begin() + kPacket, moved.end());
  refuses(moved, "packets in the place of others");
  for (std::uint64_t packet = 0; packet + 2 < kNumel / kPacket; ++packet) {
    auto stale = right;
    std::copy_n(right.begin() + (packet + 1) * kPacket, kPacket, stale.begin() + packet * kPacket);
    refuses(stale, "one packet in the place of another");
    auto alone = right;
    std::copy_n(all[ranks - 1].begin() + packet * kPacket, kPacket,
                alone.begin() + packet * kPacket);
    check(ranks == 1 || !probe.mismatch(alone).empty(),
          name + " notices a packet of one rank alone");
  }
}

bool isRight(const Probe& probe, std::uint64_t i, std::int32_t sum) {
  return sum == probe.sum(i, sum);
}

bool isRight(const Probe& probe, std::uint64_t i, float sum) {
  return std::fabs(sum - probe.sum(i, sum)) <= probe.tolerance(i);
}

/// Two groups of the same size with another seed each. In every packet it shows that a rank of the
/// one is summed with those of the other.
template <typename Value>
void crossed(std::uint32_t ranks, std::uint64_t seed, const std::string& name) {
  const Probe probe(0, ranks, kPacket, kSeed);
  const auto mine = patterns<Value>(ranks);
  const auto theirs = patterns<Value>(ranks, seed);
  const auto shows = [&](const std::vector<Value>& sums, const std::string& what) {
    check(!probe.mismatch(sums).empty(), name + " notices " + what);
    for (std::uint64_t begin = 0; begin + kPacket <= kNumel; begin += kPacket) {
      std::uint64_t right = 0;
      for (auto i = begin; i < begin + kPacket; ++i) {
        right += isRight(probe, i, sums[i]) ? 1 : 0;
      }
      check(right < kPacket / 8, name + " notices in each packet " + what);
    }
  };
  shows(summed(theirs), "the sums of another group");
  for (std::uint32_t from = 1; from < ranks; from = 4 * from + 1) {
    auto mixed = mine;
    std::copy(theirs.begin() + from, theirs.end(), mixed.begin() + from);
    shows(summed(mixed), "the last ranks of another group");
    std::copy_n(theirs.begin(), from, mixed.begin());
    std::copy(mine.begin() + from, mine.end(), mixed.begin() + from);
    shows(summed(mixed), "the first ranks of another group");
  }
}

}  // namespace

int main() {
  double sharpest = 0;
  for (const std::uint32_t ranks : {1U, 2U, 3U, 8U, 32U, 255U}) {
    const auto name = std::to_string(ranks) + " ranks";
    if (ranks > 1) {
      wrongs<std::int32_t>(ranks, name + ", int32");
      wrongs<float>(ranks, name + ", float32");
    }
    for (const auto seed : {kSeed ^ 1, kSeed ^ (std::uint64_t{1} << 63)}) {
      crossed<std::int32_t>(ranks, seed, name + ", int32");
      crossed<float>(ranks, seed, name + ", float32");
    }
    const Probe probe(0, ranks, kPacket, kSeed);
    const auto all = patterns<float>(ranks);
    const auto fixed = summed(all);
    check(probe.mismatch(fixed).empty(), name + ": " + probe.mismatch(fixed));
    check(!probe.mismatch(summed(all, 1)).empty(), name + " notices another exponent");
    auto floats = all[0];
    for (std::uint32_t rank = 1; rank < ranks; ++rank) {
      std::transform(floats.begin(), floats.end(), all[rank].begin(), floats.begin(),
                     std::plus<>());
    }
    check(probe.mismatch(floats).empty(), name + ", sums of floats: " + probe.mismatch(floats));
    for (std::uint64_t i = 0; i < kNumel; ++i) {
      const double apart = std::fabs(fixed[i] - probe.sum(i, fixed[i]));
      sharpest = std::max(sharpest, apart / probe.tolerance(i));
      check(std::fabs(all[0][i]) < 1, "values are below 1");
    }
  }
  check(sharpest > 0.25, "the tolerance is at most four times what right sums need");
  // The simulator takes configurations that no switch has room for.
  check(switchml_delegate::probeNumel(256, 4, 256) == (2 * 256 + 4) * 256 + 1, "every slot twice");
  check(switchml_delegate::probeNumel(UINT32_MAX, 1, UINT64_MAX) == std::uint64_t{1} << 22,
        "bounded");
  std::puts("ok");
  return 0;
}
