#include "faults.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace softswitch {
namespace {

constexpr unsigned kMostOthers = 8;
constexpr std::size_t kPool = 48;  // where a frame has its slot
constexpr std::uint16_t kSlotBits = 0x7fff;
constexpr auto kHoldFor = std::chrono::milliseconds(1);

// Frames without a slot are all alike.
std::uint64_t SlotOf(const Parcel& parcel) {
  if (parcel.frame.size() < kPool + 2) return kSlotBits;
  return LoadBig<2>(parcel.frame.data() + kPool) & kSlotBits;
}

bool Alike(const Parcel& one, const Parcel& other) {
  return one.port == other.port && SlotOf(one) == SlotOf(other);
}

}  // namespace

Faults::Faults(const FaultPlan& plan) : plan_(plan), random_(plan.seed) {}

bool Faults::Happens(double share) {
  // The same on every machine, which the standard's distributions are not.
  return share > 0 && static_cast<double>(random_() >> 11) * 0x1p-53 < share;
}

void Faults::Send(Time now, Parcel parcel, unsigned copies) {
  for (; copies > 1; --copies) line_.push_back({now + plan_.delay, parcel});
  line_.push_back({now + plan_.delay, std::move(parcel)});
}

bool Faults::Take(Time now, Parcel parcel) {
  if (Happens(plan_.loss)) return false;
  unsigned copies = 1;
  if (Happens(plan_.duplicate)) {
    ++copies;
    ++duplicated_;
  }
  const bool hold = Happens(plan_.reorder);
  const auto others = static_cast<unsigned>(hold ? 1 + random_() % kMostOthers : 0);

  // Where a frame of the same slot waits, it goes first.
  auto waiting = std::find_if(held_.begin(), held_.end(),
                              [&](const Held& held) { return Alike(held.parcel, parcel); });
  if (waiting != held_.end()) {
    Send(now, std::move(waiting->parcel), waiting->copies);
    held_.erase(waiting);
  }
  if (hold) {
    held_.push_back({others, now + kHoldFor, copies, std::move(parcel)});
    return true;
  }
  Send(now, std::move(parcel), copies);
  for (auto held = held_.begin(); held != held_.end();) {
    if (--held->others == 0) {
      ++overtaken_;
      Send(now, std::move(held->parcel), held->copies);
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

void Faults::Give(Time now, const std::function<void(const Parcel&)>& out) {
  for (auto held = held_.begin(); held != held_.end();) {
    if (held->until <= now) {
      Send(now, std::move(held->parcel), held->copies);
      held = held_.erase(held);
    } else {
      ++held;
    }
  }
  while (!line_.empty() && line_.front().due <= now) {
    const Parcel parcel = std::move(line_.front().parcel);
    line_.pop_front();
    out(parcel);
  }
}

std::optional<Time> Faults::Due() const {
  std::optional<Time> due;
  if (!line_.empty()) due = line_.front().due;
  for (const Held& held : held_) due = due ? std::min(*due, held.until) : held.until;
  return due;
}

}  // namespace softswitch
