// The counters of an aggregator, which `simulator serve` prints.
#ifndef SWITCHML_SRC_COUNTERS_H_
#define SWITCHML_SRC_COUNTERS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace switchml {

struct WorkerCounters {
  uint64_t joined = 0;
  uint64_t received = 0;  // bytes, with the headers of frames
  uint64_t sent = 0;
};

// Only the aggregator's thread writes them. They are read when it has ended.
struct Counters {
  explicit Counters(size_t num_workers) : workers(num_workers) {}

  uint64_t sessions = 0;
  uint64_t broken = 0;   // sessions that a fault ended
  uint64_t refused = 0;  // workers that could not join
  uint64_t jobs = 0;     // finished jobs
  uint64_t elements = 0;
  std::vector<WorkerCounters> workers;  // by rank
};

std::string Json(const Counters& counters);

}  // namespace switchml

#endif  // SWITCHML_SRC_COUNTERS_H_
