// The plan of a job in packets, chunks and steps, which all workers and the aggregator compute
// alike.
#ifndef SWITCHML_SRC_PLAN_H_
#define SWITCHML_SRC_PLAN_H_

#include <cstdint>

#include "config.h"

namespace switchml {

// Consecutive elements.
struct Range {
  uint64_t offset;
  uint64_t numel;
};

// Packets of a tensor. Each worker thread of the real library has one contiguous slice; the first
// numel % threads slices have one element more. Each slice consists of packets; its last packet may
// be short. It never changes, so any thread may call it.
class PacketLayout {
 public:
  PacketLayout(uint64_t numel, uint16_t threads, uint64_t packet_numel);

  uint64_t packets() const { return packets_; }
  Range packet(uint64_t index) const;

 private:
  uint64_t packet_numel_;
  uint64_t short_slice_;   // elements of a slice without an extra one
  uint64_t long_slices_;   // how many slices have an extra one
  uint64_t long_packets_;  // packets of a slice with an extra one
  uint64_t short_packets_;
  uint64_t packets_;
};

// Consecutive packets, which are sent in one message.
struct Chunk {
  uint64_t first_packet;
  uint64_t packets;
  Range elements;
};

enum class StepKind { kExponents, kData };

// Step of a job: a message of each worker, and the aggregator's answer.
struct Step {
  StepKind kind;
  uint64_t chunk;
};

// A job's steps, in the order in which every worker sends them. The exponents of a chunk are sent
// kLookahead chunks before its data, so no worker waits for them in the middle of a job. It never
// changes, so any thread may call it.
class JobPlan {
 public:
  // Limits the data of a worker that is under way to 512 KiB. More data would only fill the queues
  // of a slow link: the first data of the next job needs exponents, which would wait at the ends of
  // these queues while the link idles. Less data would not fill a link of 10 Gbit/s whose answers
  // take 0.4 ms.
  static constexpr uint64_t kLookahead = 16;

  JobPlan(uint64_t numel, bool quantized, uint16_t threads, uint64_t packet_numel);

  const PacketLayout& layout() const { return layout_; }
  bool quantized() const { return quantized_; }
  uint64_t steps() const { return quantized_ ? 2 * chunks_ : chunks_; }

  Chunk chunk(uint64_t index) const;
  Step step(uint64_t index) const;

  // Number of answers that a worker must have before it sends step `index`. It limits the answers
  // that the aggregator keeps for a worker to 2 * kLookahead chunks.
  uint64_t AnswersNeeded(uint64_t index) const;

 private:
  uint64_t ahead() const { return chunks_ < kLookahead ? chunks_ : kLookahead; }

  PacketLayout layout_;
  bool quantized_;
  uint64_t packets_per_chunk_;
  uint64_t chunks_;
};

}  // namespace switchml

#endif  // SWITCHML_SRC_PLAN_H_
