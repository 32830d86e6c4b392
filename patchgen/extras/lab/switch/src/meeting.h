// Callers that wait for each other. Nothing is left of those that have gone.
#ifndef SOFTSWITCH_MEETING_H_
#define SOFTSWITCH_MEETING_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace softswitch {

class Meeting {
 public:
  enum class End { kMet, kGone, kLate, kRefused };

  struct Outcome {
    End end;
    std::uint64_t value;  // of kMet
    std::string why;      // in words, of all others
  };

  struct Caller {
    std::uint64_t room = 0;  // only callers of the same room meet
    std::size_t wanted = 0;  // callers
    std::optional<std::uint32_t> rank;
    std::optional<std::uint64_t> value;  // what all get; one of them brings it
    std::function<bool()> gone;
  };

  explicit Meeting(std::chrono::milliseconds patience) : patience_(patience) {}

  // Returns once so many callers wait at the same time, all of them alive.
  Outcome Join(const Caller& caller);

  // Ends the waiting in all rooms but one.
  void Clear(std::uint64_t but, const std::string& why);

 private:
  struct Seat {
    const Caller* caller;
    std::optional<Outcome> outcome;
  };
  using Room = std::list<Seat*>;

  void Leave(std::uint64_t room, Seat& seat);

  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Room> rooms_;
};

}  // namespace softswitch

#endif  // SOFTSWITCH_MEETING_H_
