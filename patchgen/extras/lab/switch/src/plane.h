// Ports, faults and core together, in one thread.
#ifndef SOFTSWITCH_PLANE_H_
#define SOFTSWITCH_PLANE_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core.h"
#include "faults.h"
#include "poller.h"
#include "port.h"

namespace softswitch {

struct WorkerCounters {
  std::uint64_t received = 0;  // frames with this worker's addresses
  std::uint64_t summed = 0;
  std::uint64_t resent = 0;          // counted in before
  std::uint64_t answered = 0;        // sums sent to this worker
  std::uint64_t answered_again = 0;  // of these, for packets that were resent
  std::uint64_t malformed = 0;
  std::uint64_t elsewhere = 0;  // from another port than this worker's first packet
  std::uint64_t lost = 0;       // dropped by fault, before the switch received them
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
  std::uint64_t foreign = 0;  // frames of nobody who has joined, or not for the switch
  std::uint64_t duplicated = 0;
  std::uint64_t overtaken = 0;
  std::array<WorkerCounters, kMaxWorkers> workers{};
  std::array<SetCounters, kSets> sets{};
};

class Plane {
 public:
  // Throws std::runtime_error. Ports are memif:PATH or packet:INTERFACE.
  Plane(const std::vector<std::string>& ports, const FaultPlan& plan);

  // Works until Stop.
  void Run();
  // From any thread.
  void Stop();

  // From any thread, while Run works: replaces the session; a new one clears all slots. Returns
  // once it is so.
  void Apply(std::shared_ptr<const Session> session, bool fresh);

  // From any thread. When a packet of the session came last.
  Time LastPacket() const;
  // From any thread. Whether a worker of the session has gone away.
  bool Broken() const { return broken_.load(); }

  // Once Run has ended.
  const Counters& counters() const { return counters_; }
  const std::vector<std::unique_ptr<Port>>& ports() const { return ports_; }

 private:
  struct Bound {
    bool known = false;
    std::size_t port = 0;
    std::uint64_t departures = 0;  // of the port, when the worker was first heard there
  };

  void Do(std::function<void()> task);
  void DoTasks();
  bool Turn();
  void Arrived(std::size_t port, std::uint16_t queue, Bytes frame);
  void Sum(std::size_t port, std::uint16_t queue, Bytes frame);
  void Send(std::size_t rank, std::uint16_t queue, Bytes head, Bytes values);
  void LookForDepartures();

  Poller poller_;
  std::vector<std::unique_ptr<Port>> ports_;
  Core core_;
  const FaultPlan plan_;
  bool faulty_;
  Faults inwards_;
  Faults outwards_;
  Time now_{};
  bool heard_ = false;  // a packet of the session, in this turn
  std::array<Bound, kMaxWorkers> bound_{};
  Counters counters_;

  Descriptor bell_;
  std::uint64_t ringing_ = 0;
  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> broken_{false};
  std::atomic<Duration::rep> last_packet_{0};
};

}  // namespace softswitch

#endif  // SOFTSWITCH_PLANE_H_
