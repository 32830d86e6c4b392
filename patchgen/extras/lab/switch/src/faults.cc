#include "faults.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace softswitch {
namespace {

constexpr unsigned kMostOthers = 8;
constexpr std::size_t kPool = 48;  // offset of the slot in a frame
constexpr std::uint16_t kSlotBits = 0x7fff;
constexpr auto kHoldFor = std::chrono::milliseconds(1);

// Frames without a slot are all alike.
std::uint64_t SlotOf(const FrameInTransit& transit) {
  if (transit.frame.size() < kPool + 2) return kSlotBits;
  return LoadBig<2>(transit.frame.data() + kPool) & kSlotBits;
}

bool Alike(const FrameInTransit& one, const FrameInTransit& other) {
  return one.port == other.port && SlotOf(one) == SlotOf(other);
}

}  // namespace

Faults::Faults(const FaultPlan& plan) : plan_(plan), random_(plan.seed) {}

bool Faults::Happens(double share) {
  // Computed here, because the standard's distributions differ between machines.
  return share > 0 && static_cast<double>(random_() >> 11) * 0x1p-53 < share;
}

void Faults::Send(Time now, FrameInTransit transit, unsigned copies) {
  for (; copies > 1; --copies) line_.push_back({now + plan_.delay, transit});
  line_.push_back({now + plan_.delay, std::move(transit)});
}

bool Faults::Take(Time now, FrameInTransit transit) {
  if (Happens(plan_.loss)) return false;
  unsigned copies = 1;
  if (Happens(plan_.duplicate)) {
    ++copies;
    ++duplicated_;
  }
  const bool hold = Happens(plan_.reorder);
  const auto others = static_cast<unsigned>(hold ? 1 + random_() % kMostOthers : 0);

  // A held frame of the same port and slot is sent before this one.
  auto waiting = std::find_if(held_.begin(), held_.end(),
                              [&](const Held& held) { return Alike(held.transit, transit); });
  if (waiting != held_.end()) {
    Send(now, std::move(waiting->transit), waiting->copies);
    held_.erase(waiting);
  }
  if (hold) {
    held_.push_back({others, now + kHoldFor, copies, std::move(transit)});
    return true;
  }
  Send(now, std::move(transit), copies);
  for (auto held = held_.begin(); held != held_.end();) {
    if (--held->others == 0) {
      ++overtaken_;
      Send(now, std::move(held->transit), held->copies);
      held = held_.erase(held);
    } else {
      ++held;
    }
  }
  return true;
}

void Faults::Drop() {
  line_.clear();
  held_.clear();
}

void Faults::Give(Time now, const std::function<void(const FrameInTransit&)>& out) {
  for (auto held = held_.begin(); held != held_.end();) {
    if (held->until <= now) {
      Send(now, std::move(held->transit), held->copies);
      held = held_.erase(held);
    } else {
      ++held;
    }
  }
  while (!line_.empty() && line_.front().due <= now) {
    const FrameInTransit transit = std::move(line_.front().transit);
    line_.pop_front();
    out(transit);
  }
}

std::optional<Time> Faults::Due() const {
  std::optional<Time> due;
  if (!line_.empty()) due = line_.front().due;
  for (const Held& held : held_) due = due ? std::min(*due, held.until) : held.until;
  return due;
}

}  // namespace softswitch
