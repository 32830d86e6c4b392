#include "plan.h"

#include <algorithm>

namespace switchml {
namespace {

// A chunk is answered when it has arrived from all workers, so small chunks keep links busy when
// workers are not in step. Chunks of 16 KiB would cost more system calls than they save.
constexpr uint64_t kMaxChunkPackets = 64;
constexpr uint64_t kMaxChunkNumel = 1 << 13;  // 32 KiB, unless one packet is larger

uint64_t DivideUp(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

}  // namespace

PacketLayout::PacketLayout(uint64_t numel, uint16_t threads, uint64_t packet_numel)
    : packet_numel_(packet_numel),
      short_slice_(numel / threads),
      long_slices_(numel % threads),
      long_packets_(DivideUp(short_slice_ + 1, packet_numel)),
      short_packets_(DivideUp(short_slice_, packet_numel)),
      packets_(long_slices_ * long_packets_ + (threads - long_slices_) * short_packets_) {}

Range PacketLayout::packet(uint64_t index) const {
  const uint64_t in_long = long_slices_ * long_packets_;
  const bool is_long = index < in_long;
  const uint64_t slice_numel = short_slice_ + is_long;
  const uint64_t slice_packets = is_long ? long_packets_ : short_packets_;
  const uint64_t rest = is_long ? index : index - in_long;
  const uint64_t slice = rest / slice_packets;
  const uint64_t start = (is_long ? 0 : long_slices_ * (short_slice_ + 1)) + slice * slice_numel;
  const uint64_t within = rest % slice_packets * packet_numel_;
  return {start + within, std::min(packet_numel_, slice_numel - within)};
}

JobPlan::JobPlan(uint64_t numel, bool quantized, uint16_t threads, uint64_t packet_numel)
    : layout_(numel, threads, packet_numel),
      quantized_(quantized),
      packets_per_chunk_(std::clamp<uint64_t>(kMaxChunkNumel / packet_numel, 1, kMaxChunkPackets)),
      chunks_(DivideUp(layout_.packets(), packets_per_chunk_)) {}

Chunk JobPlan::chunk(uint64_t index) const {
  const uint64_t first = index * packets_per_chunk_;
  const uint64_t packets = std::min(packets_per_chunk_, layout_.packets() - first);
  const Range head = layout_.packet(first);
  const Range tail = layout_.packet(first + packets - 1);
  return {first, packets, {head.offset, tail.offset + tail.numel - head.offset}};
}

// Steps with lookahead 2 and 4 chunks: E0 E1 D0 E2 D1 E3 D2 D3.
Step JobPlan::step(uint64_t index) const {
  if (!quantized_) {
    return {StepKind::kData, index};
  }
  if (index < ahead()) {
    return {StepKind::kExponents, index};
  }
  const uint64_t rest = index - ahead();
  const uint64_t alternating = 2 * (chunks_ - ahead());
  if (rest >= alternating) {
    return {StepKind::kData, rest - alternating / 2};
  }
  const uint64_t pair = rest / 2;
  return rest % 2 == 0 ? Step{StepKind::kData, pair} : Step{StepKind::kExponents, pair + ahead()};
}

uint64_t JobPlan::AnswersNeeded(uint64_t index) const {
  const Step next = step(index);
  if (next.kind == StepKind::kExponents) {
    return 0;
  }
  if (!quantized_) {
    return index < kLookahead ? 0 : index - kLookahead + 1;
  }
  const uint64_t exponents =
      next.chunk < ahead() ? next.chunk : ahead() + 2 * (next.chunk - ahead()) + 1;
  return exponents + 1;
}

}  // namespace switchml
