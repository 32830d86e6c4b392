// Frames that are lost, doubled, overtaken or late, in one direction. No clock of its own.
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
  // Ports of which all frames are lost: those that come from it, and those that go to it.
  std::optional<std::size_t> lose_from;
  std::optional<std::size_t> lose_to;

  bool Any() const {
    return loss > 0 || duplicate > 0 || reorder > 0 || delay > Duration::zero() || lose_from ||
           lose_to;
  }
};

// A frame on its way, with a worker's rank and where it came from or goes to.
struct Parcel {
  std::size_t port = 0;
  std::uint16_t queue = 0;
  std::size_t rank = 0;
  std::vector<std::uint8_t> frame;
};

class Faults {
 public:
  explicit Faults(const FaultPlan& plan);

  // Takes a frame. False where it is lost. Frames of the same port and slot never overtake each
  // other, as a switch that sums needs a worker's packets for a slot in their order.
  bool Take(Time now, Parcel parcel);

  // Forgets the frames that are on their way.
  void Drop();

  // Gives out what is due.
  void Give(Time now, const std::function<void(const Parcel&)>& out);

  // When something will be due next, if there is anything.
  std::optional<Time> Due() const;

  std::uint64_t duplicated() const { return duplicated_; }
  std::uint64_t overtaken() const { return overtaken_; }

 private:
  struct Late {
    Time due;
    Parcel parcel;
  };
  struct Held {
    unsigned others;  // frames that pass before it
    Time until;
    unsigned copies;
    Parcel parcel;
  };

  bool Happens(double share);
  void Send(Time now, Parcel parcel, unsigned copies);

  FaultPlan plan_;
  std::mt19937_64 random_;
  std::deque<Late> line_;
  std::vector<Held> held_;
  std::uint64_t duplicated_ = 0;
  std::uint64_t overtaken_ = 0;
};

}  // namespace softswitch

#endif  // SOFTSWITCH_FAULTS_H_
