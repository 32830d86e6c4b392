// The data plane of the switch: ports, faults and core together, in one thread.
#ifndef SOFTSWITCH_DATA_PLANE_H_
#define SOFTSWITCH_DATA_PLANE_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core.h"
#include "faults.h"
#include "mutex.h"
#include "poller.h"
#include "port.h"

namespace softswitch {

struct WorkerCounters {
  std::uint64_t received = 0;  // frames from this worker's addresses
  std::uint64_t summed = 0;
  std::uint64_t resent = 0;          // packets that were summed before
  std::uint64_t answered = 0;        // sums sent to this worker
  std::uint64_t answered_again = 0;  // of these, as answers to resent packets
  std::uint64_t malformed = 0;
  std::uint64_t elsewhere = 0;  // from another port than this worker's first packet
  std::uint64_t lost = 0;       // dropped by an injected fault, before the switch received them
  std::uint64_t answers_lost = 0;
};

struct SetCounters {
  std::uint64_t received = 0;
  std::uint64_t summed = 0;
  std::uint64_t resent = 0;
  std::uint64_t complete = 0;
  std::uint64_t answered_again = 0;
};

struct Counters {
  std::uint64_t sessions = 0;
  std::uint64_t foreign = 0;  // frames of strangers, or not for the switch
  std::uint64_t duplicated = 0;
  std::uint64_t overtaken = 0;
  std::array<WorkerCounters, kMaxWorkers> workers{};
  std::array<SetCounters, kSets> sets{};
};

// The way of a frame through the switch:
//
//   1. Each turn takes a batch of frames of each port.
//   2. Injected faults may lose, delay, duplicate or reorder a frame: inwards_.
//   3. The core processes the frame, and says which workers get an answer.
//   4. The answers go through outwards_ to the ports of the workers.
//   5. Without frames, the poller waits for events of the ports, for tasks of other threads, and
//      for delayed frames.
//
// One thread calls Run(), and all private members. The controller's threads call Apply(),
// LastPacket() and Broken(), and the main thread Stop(): their tasks run in the thread of Run().
// `mutex_` guards the tasks; the other members that threads share are atomic.
class DataPlane {
 public:
  // Ports are memif:PATH or packet:INTERFACE. Throws std::runtime_error.
  DataPlane(const std::vector<std::string>& ports, const FaultPlan& plan);

  // Sums until Stop().
  void Run();
  // Makes Run() return. Any thread may call this.
  void Stop();

  // Replaces the session; a fresh one clears all slots. Waits until it is applied. Any thread may
  // call this while Run() runs.
  void Apply(std::shared_ptr<const Session> session, bool fresh);

  // Time of the last packet of the session. Any thread may call this.
  Time LastPacket() const;
  // True once a worker of the session has disconnected. Any thread may call this.
  bool Broken() const { return broken_.load(); }

  // Call these when Run() has returned.
  const Counters& counters() const { return counters_; }
  const std::vector<std::unique_ptr<Port>>& ports() const { return ports_; }

 private:
  // The port of a worker's first packet, which all its packets must come from.
  struct WorkerPort {
    bool known = false;
    std::size_t port = 0;
    std::uint64_t departures = 0;  // of the port, at the worker's first packet
  };

  // Runs `task` in the thread of Run(). Any thread may call this.
  void Post(std::function<void()> task) LAB_EXCLUDES(mutex_);
  void RunTasks() LAB_EXCLUDES(mutex_);
  // Takes, sums and sends a batch of each port. False if no frame had arrived.
  bool Turn();
  void Arrived(std::size_t port, std::uint16_t queue, Bytes frame);
  void Sum(std::size_t port, std::uint16_t queue, Bytes frame);
  void Send(std::size_t rank, std::uint16_t queue, Bytes head, Bytes values);
  void CheckDepartures();

  Poller poller_;
  std::vector<std::unique_ptr<Port>> ports_;
  Core core_;
  const FaultPlan plan_;
  bool faulty_;
  Faults inwards_;
  Faults outwards_;
  Time now_{};
  bool had_packet_ = false;  // of the session, in this turn
  std::array<WorkerPort, kMaxWorkers> worker_ports_{};
  Counters counters_;

  Descriptor wakeup_;              // an eventfd, written when there are tasks
  std::uint64_t wakeup_name_ = 0;  // in the poller
  lab::Mutex mutex_;
  std::vector<std::function<void()>> tasks_ LAB_GUARDED_BY(mutex_);
  std::atomic<bool> stop_{false};
  std::atomic<bool> broken_{false};
  std::atomic<Duration::rep> last_packet_{0};
};

}  // namespace softswitch

#endif  // SOFTSWITCH_DATA_PLANE_H_
