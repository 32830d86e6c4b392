#include "stats.h"

#include <string>

#include "log.h"

namespace switchml {

void Stats::LogStats() {
  Log("jobs submitted " + std::to_string(jobs_submitted_) + ", finished " +
      std::to_string(jobs_finished_) + ", elements submitted " + std::to_string(numel_submitted_));
}

void Stats::ResetStats() {
  jobs_submitted_ = 0;
  jobs_finished_ = 0;
  numel_submitted_ = 0;
}

void Stats::CountSubmitted(Numel numel) {
  ++jobs_submitted_;
  numel_submitted_ += numel;
}

}  // namespace switchml
