// Counters of an aggregator.
#ifndef SWITCHML_SRC_TALLY_H_
#define SWITCHML_SRC_TALLY_H_

#include <cstdint>
#include <string>
#include <vector>

namespace switchml {

struct WorkerTally {
  uint64_t joined = 0;
  uint64_t received = 0;  // bytes, with the headers of frames
  uint64_t sent = 0;
};

struct Tally {
  explicit Tally(size_t num_workers) : workers(num_workers) {}

  uint64_t sessions = 0;
  uint64_t broken = 0;   // of the sessions: those that a fault ended
  uint64_t refused = 0;  // workers that could not join
  uint64_t jobs = 0;     // finished ones
  uint64_t elements = 0;
  std::vector<WorkerTally> workers;  // by rank
};

std::string Json(const Tally& tally);

}  // namespace switchml

#endif  // SWITCHML_SRC_TALLY_H_
