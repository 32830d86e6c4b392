// The workers that sum together, from the first that joins until the last has left.
#ifndef SWITCHML_SRC_GROUP_H_
#define SWITCHML_SRC_GROUP_H_

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "counters.h"
#include "lobby.h"
#include "plan.h"
#include "protocol.h"
#include "socket.h"

namespace switchml {

// The jobs of one group of workers:
//
//   1. Join() adds the workers. They announce their next job with equal job headers.
//   2. The job's plan gives its steps. In each step Serve() reads one frame of each worker.
//   3. When all frames of the step are there, Advance() combines them in rank order, and queues the
//      result for all workers.
//   4. After the last step the next job may be announced.
//   5. A worker that leaves, breaks the protocol or is late ends the group for good: the order of
//      the jobs is lost.
//
//     joining ──all workers──▶ between jobs ◀──▶ in a job
//        └─────────────────────────┴───────────────┴── fault, goodbye ──▶ ended
//
// Only the aggregator's thread calls it. There is no mutex.
class Group {
 public:
  // All workers must match `reference`. `counters` must outlive the group.
  Group(const Hello& reference, Counters& counters);

  // True once the group sums no more. No worker can join it then.
  bool ended() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }
  // True if no worker is connected.
  bool empty() const;

  // Reason why a worker cannot join; empty if it can.
  std::string RefusalReason(const Hello& hello) const;
  void Join(Lobby::Arrival arrival);

  // Combines complete steps, and sends as much as the sockets take.
  void Advance();

  // Appends an entry for poll(2) for each connected worker.
  void Watch(std::vector<pollfd>& entries) const;
  // Reads from the workers whose entries, those that Watch() appended, are ready. Returns the entry
  // behind them.
  const pollfd* Serve(const pollfd* entries);

  // Time at which CheckLimit() must be called at the latest.
  TimePoint NextDeadline() const;
  // Ends the group if a worker is late in the current step.
  void CheckLimit();

  // Ends the group. The workers get the queued answers, then the reason.
  void End(const std::string& reason);
  // Sends the queued frames, for a second at most, and disconnects all workers.
  void Deliver();

 private:
  void Read(uint16_t rank);
  void Remove(uint16_t rank);
  // Ends the group because of a fault.
  void Fail(const std::string& reason);

  // Header of the frame that every worker must send next, unless it says goodbye.
  FrameHeader Expected() const;
  // True if no worker waits for a sum.
  bool Idle() const;
  bool CanCombine() const;
  void Combine();
  SharedFrame CombineJobs();
  SharedFrame CombineStep();
  void Flush();

  const Hello reference_;
  const std::chrono::milliseconds limit_;
  Counters& counters_;
  std::vector<std::unique_ptr<Connection>> workers_;  // by rank; null: not joined yet, or left
  std::string failure_;                               // reason of the end; empty until then

  uint64_t jobs_ = 0;  // finished jobs: the number of the current job
  JobHeader job_{};
  std::optional<JobPlan> plan_;  // of the current job, once all workers have announced it
  uint64_t step_ = 0;
  std::optional<TimePoint> step_began_;  // when the first worker began the current step
};

}  // namespace switchml

#endif  // SWITCHML_SRC_GROUP_H_
