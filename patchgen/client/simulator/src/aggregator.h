// The switch: a thread in rank 0's process that sums what the workers send.
//
// It goes step by step: it takes one frame of each worker, combines them in rank order and queues
// the result for all. Any fault ends the job for good, as the order of the jobs is lost with it.
#ifndef SWITCHML_SRC_AGGREGATOR_H_
#define SWITCHML_SRC_AGGREGATOR_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "connection.h"
#include "lobby.h"
#include "plan.h"
#include "protocol.h"
#include "socket.h"

namespace switchml {

class Aggregator {
 public:
  // `reference` is the hello that workers are compared with. Throws LinkError.
  Aggregator(const Endpoint& endpoint, const Hello& reference, std::chrono::milliseconds limit);

  // Delivers what is queued, for a second at most, and closes all connections.
  ~Aggregator();

  Aggregator(const Aggregator&) = delete;
  Aggregator& operator=(const Aggregator&) = delete;

 private:
  void Run();
  void ServeAll();
  void Deliver();

  void Admit(Lobby::Guest guest);
  std::string Refusal(const Hello& hello) const;
  void Serve(uint16_t rank);
  void CheckLimit();

  FrameHeader Expected() const;
  bool CanCombine() const;
  void Combine();
  SharedFrame CombineJobs();
  SharedFrame CombineStep();

  void FlushAll();
  void Fail(const std::string& reason);

  const Hello reference_;
  const std::chrono::milliseconds limit_;
  Lobby lobby_;
  Fd wakeup_;
  std::atomic<bool> stopping_{false};

  // All below belongs to the thread.
  std::vector<pollfd> entries_;                       // what it waits for
  std::vector<std::unique_ptr<Connection>> workers_;  // by rank; empty: not joined yet, or gone
  std::string failure_;                               // why there are no more jobs

  uint64_t jobs_ = 0;  // finished ones, and so the number of the current one
  JobHeader job_{};
  std::optional<JobPlan> plan_;  // of the current job, once all have announced it
  uint64_t step_ = 0;
  std::optional<TimePoint> step_began_;  // when the first worker began the current step

  std::thread thread_;
};

}  // namespace switchml

#endif  // SWITCHML_SRC_AGGREGATOR_H_
