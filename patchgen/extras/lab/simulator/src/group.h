// Workers that sum together, from the first who joins until the last has gone.
//
// It goes step by step: it takes one frame of each worker, combines them in rank order and queues
// the result for all. Any fault ends the job for good, as the order of the jobs is lost with it.
#ifndef SWITCHML_SRC_GROUP_H_
#define SWITCHML_SRC_GROUP_H_

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lobby.h"
#include "plan.h"
#include "protocol.h"
#include "socket.h"
#include "tally.h"

namespace switchml {

class Group {
 public:
  // `reference` is the hello that others are compared with. `tally` must outlive the group.
  Group(const Hello& reference, Tally& tally);

  // No job is done any more, and nobody can join.
  bool over() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }
  // All have gone who had joined.
  bool empty() const;

  // Why a worker cannot join; empty where it can.
  std::string Refusal(const Hello& hello) const;
  void Join(Lobby::Guest guest);

  // Combines what is complete, and sends what the sockets take.
  void Advance();

  // Appends what to poll for, an entry for each worker that is there.
  void Watch(std::vector<pollfd>& entries) const;
  // Takes the entries that Watch() appended, and reads what has arrived. Returns the one after.
  const pollfd* Serve(const pollfd* entries);

  // When CheckLimit() must be called, at the latest.
  TimePoint NextDeadline() const;
  void CheckLimit();

  // The workers get what is queued before they get the reason.
  void End(const std::string& reason);
  // Sends what is queued, for a second at most.
  void Deliver();

 private:
  void Read(uint16_t rank);
  void Part(uint16_t rank);
  void Break(const std::string& reason);

  FrameHeader Expected() const;
  bool Idle() const;
  bool CanCombine() const;
  void Combine();
  SharedFrame CombineJobs();
  SharedFrame CombineStep();
  void Flush();

  const Hello reference_;
  const std::chrono::milliseconds limit_;
  Tally& tally_;
  std::vector<std::unique_ptr<Connection>> workers_;  // by rank; empty: not joined yet, or gone
  std::string failure_;                               // why there are no more jobs

  uint64_t jobs_ = 0;  // finished ones, and so the number of the current one
  JobHeader job_{};
  std::optional<JobPlan> plan_;  // of the current job, once all have announced it
  uint64_t step_ = 0;
  std::optional<TimePoint> step_began_;  // when the first worker began the current step
};

}  // namespace switchml

#endif  // SWITCHML_SRC_GROUP_H_
