#include "meeting.h"

#include <utility>

namespace softswitch {
namespace {

// Nobody tells when a caller goes, so it is asked now and then.
constexpr std::chrono::milliseconds kLook(20);

}  // namespace

void Meeting::Leave(std::uint64_t room, Seat& seat) {
  const auto found = rooms_.find(room);
  if (found == rooms_.end()) return;
  found->second.remove(&seat);
  if (found->second.empty()) rooms_.erase(found);
}

Meeting::Outcome Meeting::Join(const Caller& caller) {
  const auto deadline = std::chrono::steady_clock::now() + patience_;
  Seat mine{&caller, std::nullopt};
  std::unique_lock<std::mutex> lock(mutex_);
  Room& room = rooms_[caller.room];
  room.remove_if([](const Seat* seat) { return seat->caller->gone(); });
  for (auto each = room.begin(); each != room.end();) {
    Seat& seat = **each;
    if (caller.rank && seat.caller->rank == caller.rank) {
      seat.outcome = {End::kRefused, 0, "rank " + std::to_string(*caller.rank) + " came again"};
      each = room.erase(each);
    } else if (seat.caller->wanted != caller.wanted) {
      const std::string why = "of " + std::to_string(caller.wanted) + " workers, while others of " +
                              std::to_string(seat.caller->wanted) + " wait";
      return {End::kRefused, 0, why};
    } else {
      ++each;
    }
  }
  room.push_back(&mine);

  if (room.size() == caller.wanted) {
    std::uint64_t value = 0;
    for (const Seat* seat : room) value = seat->caller->value.value_or(value);
    for (Seat* seat : room) seat->outcome = {End::kMet, value, ""};
    rooms_.erase(caller.room);
    changed_.notify_all();
    return *mine.outcome;
  }
  changed_.notify_all();
  while (!mine.outcome) {
    if (caller.gone()) {
      Leave(caller.room, mine);
      return {End::kGone, 0, "the caller has gone"};
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      const std::string why = std::to_string(rooms_[caller.room].size()) + " of " +
                              std::to_string(caller.wanted) + " workers came";
      Leave(caller.room, mine);
      return {End::kLate, 0, why};
    }
    changed_.wait_for(lock, kLook);
  }
  return *mine.outcome;
}

void Meeting::Clear(std::uint64_t but, const std::string& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto room = rooms_.begin(); room != rooms_.end();) {
    if (room->first == but) {
      ++room;
      continue;
    }
    for (Seat* seat : room->second) seat->outcome = {End::kRefused, 0, why};
    room = rooms_.erase(room);
  }
  changed_.notify_all();
}

}  // namespace softswitch
