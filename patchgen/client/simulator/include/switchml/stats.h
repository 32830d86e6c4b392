// Counters of one process.
#ifndef SWITCHML_STATISTICS_H_
#define SWITCHML_STATISTICS_H_

#include <atomic>
#include <cstdint>

#include "common.h"

namespace switchml {

class Stats {
 public:
  // Writes one line to stderr.
  void LogStats();
  void ResetStats();

  uint64_t JobsSubmitted() const { return jobs_submitted_; }
  uint64_t JobsFinished() const { return jobs_finished_; }
  uint64_t NumelSubmitted() const { return numel_submitted_; }

  // For the library.
  void CountSubmitted(Numel numel);
  void CountFinished() { ++jobs_finished_; }

 private:
  std::atomic<uint64_t> jobs_submitted_{0};
  std::atomic<uint64_t> jobs_finished_{0};
  std::atomic<uint64_t> numel_submitted_{0};
};

}  // namespace switchml

#endif  // SWITCHML_STATISTICS_H_
