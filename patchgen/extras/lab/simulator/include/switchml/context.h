// The client library's API.
#ifndef SWITCHML_CONTEXT_H_
#define SWITCHML_CONTEXT_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "common.h"
#include "config.h"
#include "job.h"
#include "stats.h"

namespace switchml {

class Session;

// Context, one per process. If the real library would abort the process, this one writes a line to
// stderr and returns false or a FAILED job.
//
//   CREATED ──Start()──▶ STARTING ──▶ RUNNING ──Stop()──▶ STOPPING ──▶ STOPPED
//                            │          ▲                                │
//                            └─failure──┼───────────────────────────────▶│
//                                       └────────────Start()─────────────┘
//
// One thread calls Start() and Stop(), while no other thread calls any member but the counters. In
// between, any thread may call the other members. The session has the mutex.
class Context {
 public:
  enum ContextState { CREATED, STARTING, RUNNING, STOPPING, STOPPED };

  Context(const Context&) = delete;
  void operator=(const Context&) = delete;

  static Context& GetInstance();

  // Connects to the aggregator, which rank 0 hosts unless it is a process of its own. Waits until
  // the aggregator has accepted this worker, not until all workers are there. False if that fails,
  // if the context starts or runs already, and in a forked child of a process that has called it.
  // Throws as Config::LoadFromFile() if `config` is NULL.
  bool Start(Config* config = NULL);

  // Ends unfinished jobs as FAILED, on all workers.
  void Stop();

  // Sums over all workers. Each worker must submit the same jobs in the same order.
  std::shared_ptr<Job> AllReduce(void* in_ptr, void* out_ptr, uint64_t numel, DataType data_type,
                                 AllReduceOperation all_reduce_operation);

  // The memory must stay until the job is FINISHED or FAILED.
  std::shared_ptr<Job> AllReduceAsync(void* in_ptr, void* out_ptr, uint64_t numel,
                                      DataType data_type, AllReduceOperation all_reduce_operation);

  void WaitForAllJobs();

  // STOPPED in a forked child of the process that called Start().
  ContextState GetContextState();

  const Config& GetConfig();
  Stats& GetStats();

 private:
  Context();
  ~Context();

  bool InForkedChild() const;
  bool Join(Config* config);

  std::atomic<ContextState> state_;
  std::atomic<pid_t> starter_;
  Config config_;
  Stats stats_;
  std::unique_ptr<Session> session_;
};

}  // namespace switchml

#endif  // SWITCHML_CONTEXT_H_
