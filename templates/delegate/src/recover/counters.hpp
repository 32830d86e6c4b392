/// Counters of the failovers of a process, for its report and its metrics.
#pragma once

#include <atomic>
#include <cstdint>

namespace switchml_delegate {

/// Counters of all groups of a process. Called by any thread.
struct FailoverCounters {
  std::atomic<std::uint64_t> failovers{0};
  std::atomic<std::uint64_t> resumes{0};  // failovers after which the ranks used SwitchML again
  std::atomic<std::uint64_t> redone{0};   // jobs that were pending when the context failed
  std::atomic<std::uint64_t> calls{0};    // allreduces with at least one job summed over the ring

  // Milliseconds.
  std::atomic<std::int64_t> endedMs{0};      // duration of the failovers that have ended
  std::atomic<std::int64_t> startedAtMs{0};  // begin of the failover under way; 0 if there is none

  /// Duration of all failovers, with the one under way.
  double seconds() const;

  /// Called when a failover begins.
  void begin();

  /// Called when a failover ends; does nothing if none is under way.
  void end();
};

}  // namespace switchml_delegate
