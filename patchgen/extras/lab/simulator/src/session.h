// A started context: the queue of jobs, the thread that does them, and rank 0's aggregator.
#ifndef SWITCHML_SRC_SESSION_H_
#define SWITCHML_SRC_SESSION_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "aggregator_thread.h"
#include "config.h"
#include "job.h"
#include "mutex.h"
#include "stats.h"
#include "worker.h"

namespace switchml {

// The way of a job through a session:
//
//   1. Submit() appends a job to the queue.
//   2. The session's thread begins the jobs in their order. It begins a job while the job before
//      waits for its last answers, so that the processor does not idle.
//   3. When the worker has the last answer of the oldest job, that job leaves the queue as
//      FINISHED.
//   4. If the connection fails, all queued and later jobs end as FAILED.
//   5. Stop() fails the queued jobs, joins the thread, and ends the aggregator.
//
// Threads of the program call the public members, which are those of the context. `mutex_` guards
// the queue. `worker_` and `failure_` belong to the session's thread.
class Session {
 public:
  // Starts the thread. Rank 0 also starts the aggregator, unless that is a process of its own.
  // `stats` must outlive the session. Throws LinkError.
  Session(const GeneralConfig& config, bool external_aggregator, Stats& stats);
  ~Session() { Stop(); }

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Fails the job at once if the session has stopped.
  void Submit(std::shared_ptr<Job> job) LAB_EXCLUDES(mutex_);
  void WaitForAll() LAB_EXCLUDES(mutex_);
  void Stop() LAB_EXCLUDES(mutex_);

 private:
  void Run() LAB_EXCLUDES(mutex_);

  // Begins the next job. If it is null, finishes the oldest one.
  void DoNext(const Job* next) LAB_EXCLUDES(mutex_);

  // Ends the oldest job. The caller holds the mutex, so that Stop() never finds a job in the queue
  // for which a thread has already stopped waiting.
  void End(JobStatus status) LAB_REQUIRES(mutex_);

  const uint16_t rank_;
  const bool instant_;
  Stats& stats_;
  std::optional<AggregatorThread> aggregator_;
  Worker worker_;
  std::string failure_;  // reason why all later jobs fail; empty until then

  lab::Mutex mutex_;
  lab::Condition submitted_;  // a job was queued, or the session stops
  lab::Condition idle_;       // the queue is empty
  std::deque<std::shared_ptr<Job>> queue_ LAB_GUARDED_BY(mutex_);  // jobs that have not ended
  size_t begun_ LAB_GUARDED_BY(mutex_) = 0;  // how many of them the worker has begun
  bool stopping_ LAB_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace switchml

#endif  // SWITCHML_SRC_SESSION_H_
