// Counters of one process, with the interface of the real library's that has the fix `counts`.
#ifndef SWITCHML_STATISTICS_H_
#define SWITCHML_STATISTICS_H_

#include <atomic>
#include <cstdint>

#include "common.h"

namespace switchml {

// Counts the packets that the real library would send: `packet_numel` elements each, or exponents.
// The simulator has one sending thread, so it ignores the numbers of threads. Any thread may call
// any member: the counters are atomic.
class Stats {
 public:
  void InitStats(WorkerTid num_worker_threads);
  // Writes one line to stderr.
  void LogStats();
  void ResetStats();

  void IncJobsSubmittedNum() { ++jobs_submitted_; }
  void AppendJobSubmittedNumel(uint64_t size) { numel_submitted_ += size; }
  void IncJobsFinishedNum() { ++jobs_finished_; }
  void AddTotalPktsSent(WorkerTid, uint64_t to_add) { sent_ += to_add; }
  void AddCorrectPktsReceived(WorkerTid, uint64_t to_add) { correct_ += to_add; }
  void AddWrongPktsReceived(WorkerTid, uint64_t to_add) { wrong_ += to_add; }
  void AddTimeouts(WorkerTid, uint64_t to_add) { timeouts_ += to_add; }

  uint64_t TotalPktsSent() const { return sent_; }
  uint64_t CorrectPktsReceived() const { return correct_; }
  uint64_t WrongPktsReceived() const { return wrong_; }
  uint64_t Timeouts() const { return timeouts_; }

  // The real library does not have these.
  uint64_t JobsSubmitted() const { return jobs_submitted_; }
  uint64_t JobsFinished() const { return jobs_finished_; }
  uint64_t NumelSubmitted() const { return numel_submitted_; }

 private:
  std::atomic<uint64_t> jobs_submitted_{0};
  std::atomic<uint64_t> jobs_finished_{0};
  std::atomic<uint64_t> numel_submitted_{0};
  std::atomic<uint64_t> sent_{0};
  std::atomic<uint64_t> correct_{0};
  std::atomic<uint64_t> wrong_{0};
  std::atomic<uint64_t> timeouts_{0};
};

}  // namespace switchml

#endif  // SWITCHML_STATISTICS_H_
