/// Counters of the failovers of a process, for its report and its metrics.
#pragma once

#include <atomic>
#include <cstdint>

namespace switchml_delegate {

/// Counters of all groups of a process. Called by any thread.
struct FailoverCounters {
  std::atomic<std::uint64_t> failovers{0};
  std::atomic<std::uint64_t> returns{0};  // resume attempts after which the context was used again
  std::atomic<std::uint64_t> redone{0};   // jobs that were pending when the context failed
  std::atomic<std::uint64_t> calls{0};    // allreduces of which a job was summed over the ring
  std::atomic<std::int64_t> ended{0};     // milliseconds of the failovers that have ended
  std::atomic<std::int64_t> since{0};     // begin of the failover that has not ended, or 0

  /// Time of all failovers.
  double seconds() const;

  void begin();

  /// Does nothing if no failover has begun.
  void end();
};

}  // namespace switchml_delegate
