// A started context: the jobs' queue, the thread that carries them out, and rank 0's aggregator.
#ifndef SWITCHML_SRC_SESSION_H_
#define SWITCHML_SRC_SESSION_H_

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "config.h"
#include "host.h"
#include "job.h"
#include "stats.h"
#include "worker.h"

namespace switchml {

class Session {
 public:
  // Throws LinkError. Rank 0 hosts the aggregator unless that is a process of its own. `stats` must
  // outlive the session.
  Session(const GeneralConfig& config, bool external_aggregator, Stats& stats);
  ~Session() { Stop(); }

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Fails the job at once where the session has stopped.
  void Submit(std::shared_ptr<Job> job);
  void WaitForAll();
  void Stop();

 private:
  void Run();
  void CarryOut(const Job* next);
  void End(JobStatus status);

  const uint16_t rank_;
  const bool instant_;
  Stats& stats_;
  std::optional<Host> host_;
  Worker worker_;
  std::string failure_;  // the thread's: why all later jobs fail

  std::mutex mutex_;
  std::condition_variable submitted_;
  std::condition_variable idle_;
  std::deque<std::shared_ptr<Job>> queue_;  // not finished
  size_t begun_ = 0;                        // how many of them the worker has
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace switchml

#endif  // SWITCHML_SRC_SESSION_H_
