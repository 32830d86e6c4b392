// Injected faults: frames that are lost, duplicated, overtaken or delayed in one direction.
#ifndef SOFTSWITCH_FAULTS_H_
#define SOFTSWITCH_FAULTS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "bytes.h"

namespace softswitch {

using Time = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

// Shares of the frames, from 0 to 1.
struct FaultPlan {
  double loss = 0;
  double duplicate = 0;
  double reorder = 0;
  Duration delay{};
  std::uint64_t seed = 1;
  // Ports whose frames are all lost: those from the first, and those to the second.
  std::optional<std::size_t> lose_from;
  std::optional<std::size_t> lose_to;

  bool Any() const {
    return loss > 0 || duplicate > 0 || reorder > 0 || delay > Duration::zero() || lose_from ||
           lose_to;
  }
};

// A frame on its way, with its worker's rank, and the port and queue that it comes from or goes to.
struct FrameInTransit {
  std::size_t port = 0;
  std::uint16_t queue = 0;
  std::size_t rank = 0;
  std::vector<std::uint8_t> frame;
};

// The faults of one direction:
//
//   1. Take() loses a frame, or delays it, perhaps as two copies, or holds it while others pass.
//   2. Give() hands out the frames whose delay is over.
//
// It has no clock: the caller passes the time. Only the thread of the data plane calls it.
class Faults {
 public:
  explicit Faults(const FaultPlan& plan);

  // Takes a frame. False if it is lost. Frames of the same port and slot never overtake each other,
  // because the switch needs a worker's packets for a slot in their order.
  bool Take(Time now, FrameInTransit transit);

  // Drops the frames that are on their way.
  void Drop();

  // Calls `out` with each frame that is due.
  void Give(Time now, const std::function<void(const FrameInTransit&)>& out);

  // Time at which the next frame is due; none without frames.
  std::optional<Time> Due() const;

  std::uint64_t duplicated() const { return duplicated_; }
  std::uint64_t overtaken() const { return overtaken_; }

 private:
  struct Late {
    Time due;
    FrameInTransit transit;
  };
  struct Held {
    unsigned others;  // frames that must pass first
    Time until;
    unsigned copies;
    FrameInTransit transit;
  };

  bool Happens(double share);
  void Send(Time now, FrameInTransit transit, unsigned copies);

  FaultPlan plan_;
  std::mt19937_64 random_;
  std::deque<Late> line_;
  std::vector<Held> held_;
  std::uint64_t duplicated_ = 0;
  std::uint64_t overtaken_ = 0;
};

}  // namespace softswitch

#endif  // SOFTSWITCH_FAULTS_H_
