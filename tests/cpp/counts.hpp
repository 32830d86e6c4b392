/// The interface of the client library's counters, the same in the real one and the simulator.
#pragma once

#include <switchml/stats.h>

#include <cstdint>
#include <string>

/// Finds a counter of an object of its own that is wrong; empty where none is.
inline std::string objectionToCounts() {
  switchml::Stats stats;
  stats.InitStats(2);
  const auto holds = [&stats](std::uint64_t sent, std::uint64_t correct, std::uint64_t wrong,
                              std::uint64_t timeouts) {
    return stats.TotalPktsSent() == sent && stats.CorrectPktsReceived() == correct &&
           stats.WrongPktsReceived() == wrong && stats.Timeouts() == timeouts;
  };
  if (!holds(0, 0, 0, 0)) {
    return "counters do not begin at 0";
  }
  for (const switchml::WorkerTid thread : {0, 1, 1}) {
    stats.AddTotalPktsSent(thread, 1);
    stats.AddCorrectPktsReceived(thread, 10);
    stats.AddWrongPktsReceived(thread, 100);
    stats.AddTimeouts(thread, 1000);
  }
  if (!holds(3, 30, 300, 3000)) {
    return "a counter is not the total of all threads";
  }
  stats.IncJobsSubmittedNum();
  stats.AppendJobSubmittedNumel(7);
  stats.IncJobsFinishedNum();
  stats.LogStats();
  stats.ResetStats();
  return holds(0, 0, 0, 0) ? "" : "counters are not reset";
}
