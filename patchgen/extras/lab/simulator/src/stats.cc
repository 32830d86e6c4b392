#include "stats.h"

#include <string>

#include "log.h"

namespace switchml {

void Stats::InitStats(WorkerTid) { ResetStats(); }

void Stats::LogStats() {
  Log("jobs submitted " + std::to_string(jobs_submitted_) + ", finished " +
      std::to_string(jobs_finished_) + ", elements submitted " + std::to_string(numel_submitted_) +
      "; packets sent " + std::to_string(sent_) + ", answers " + std::to_string(correct_) +
      ", wrong " + std::to_string(wrong_) + ", timeouts " + std::to_string(timeouts_));
}

void Stats::ResetStats() {
  for (auto* const count : {&jobs_submitted_, &jobs_finished_, &numel_submitted_, &sent_, &correct_,
                            &wrong_, &timeouts_}) {
    *count = 0;
  }
}

}  // namespace switchml
