// How fast the core sums in one thread, beside memcpy of the same bytes in the same pass.
//
// Two workers send 256 slots in turn. Each packet is summed, and each sum is written out to both,
// as to a port's memory. The reference copies each packet from the same place to such memory.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "core.h"

namespace {

using softswitch::Bytes;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kWorkers = 2;
constexpr std::size_t kUsed = 256;  // slots, which is what a client has outstanding
constexpr std::size_t kFrame = softswitch::kMaxFrame;
constexpr int kRounds = 10;
constexpr int kPasses = 600;

std::vector<std::uint8_t> Frame(const softswitch::Address& from, std::size_t pool) {
  std::vector<std::uint8_t> frame(kFrame, 1);
  std::uint8_t* data = frame.data();
  softswitch::StoreBig<6>(data, softswitch::kSwitch.mac);
  softswitch::StoreBig<6>(data + 6, from.mac);
  softswitch::StoreBig<2>(data + 12, 0x0800);
  data[14] = 0x45;
  softswitch::StoreBig<2>(data + 16, kFrame - 14);
  data[23] = 17;
  softswitch::StoreBig<4>(data + 26, from.ip);
  softswitch::StoreBig<4>(data + 30, softswitch::kSwitch.ip);
  softswitch::StoreBig<2>(data + 34, 4000);
  softswitch::StoreBig<2>(data + 36, 0xbee0);
  softswitch::StoreBig<2>(data + 38, kFrame - 34);
  data[42] = 0x13;
  softswitch::StoreBig<2>(data + 48, pool);
  return frame;
}

template <class Work>
double Seconds(const Work& work) {
  const auto begun = Clock::now();
  for (int round = 0; round < kRounds; ++round) work(static_cast<std::size_t>(round % 2));
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

}  // namespace

int main() {
  auto session = std::make_shared<softswitch::Session>();
  session->elements = softswitch::kMaxElements;
  session->workers = {softswitch::Address{1, 1}, softswitch::Address{2, 2}};
  softswitch::Core core;
  core.Begin(session);

  std::vector<std::vector<std::uint8_t>> frames;  // [set][slot][worker]
  for (std::size_t set = 0; set < 2; ++set) {
    for (std::size_t slot = 0; slot < kUsed; ++slot) {
      for (const auto& worker : session->workers) {
        frames.push_back(Frame(*worker, set << 15 | slot));
      }
    }
  }
  std::vector<std::uint8_t> out(kWorkers * kUsed * 2048);
  std::size_t answers = 0;
  const auto sum = [&](std::size_t set) {
    for (std::size_t at = 0; at < kUsed * kWorkers; ++at) {
      const auto& frame = frames[set * kUsed * kWorkers + at];
      const Bytes bytes = {frame.data(), frame.size()};
      const auto rank = core.RankOf(bytes);
      softswitch::Answer answer = core.Take(*rank, bytes);
      if (answer.verdict != softswitch::Verdict::kComplete) continue;
      for (std::size_t each = 0; each < kWorkers; ++each) {
        std::uint8_t* to = &out[(at - at % kWorkers + each) * 2048];
        const Bytes head = answer.head.To(*session->workers[each]);
        std::memcpy(to, head.data, head.size);
        std::memcpy(to + head.size, answer.values.data, answer.values.size);
        ++answers;
      }
    }
  };
  const auto copy = [&](std::size_t set) {
    for (std::size_t at = 0; at < kUsed * kWorkers; ++at) {
      std::memcpy(&out[at * 2048], frames[set * kUsed * kWorkers + at].data(), kFrame);
      asm volatile("" ::: "memory");
    }
  };

  double summed = 1e9;
  double copied = 1e9;
  for (int pass = 0; pass < kPasses; ++pass) {
    summed = std::min(summed, Seconds(sum));
    copied = std::min(copied, Seconds(copy));
  }
  if (answers != std::size_t{kPasses} * kRounds * kUsed * kWorkers) return 1;
  const double bytes = static_cast<double>(kRounds * kUsed * kWorkers * kFrame);
  std::printf("%.3f %.3f\n", bytes / summed / 1e9, bytes / copied / 1e9);
}
