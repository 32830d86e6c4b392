// A job: one collective operation on one tensor.
#ifndef SWITCHML_JOB_H_
#define SWITCHML_JOB_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "common.h"

namespace switchml {

enum JobType { ALLREDUCE, BROADCAST };

enum AllReduceOperation { SUM };

union ExtraJobInfo {
  AllReduceOperation allreduce_operation;
  int32_t broadcast_root_rank;
};

enum JobStatus { INIT, QUEUED, RUNNING, FINISHED, FAILED };

class Job {
 public:
  Job(Tensor tensor, JobType job_type, ExtraJobInfo extra_job_info);

  Job(const Job&) = delete;
  void operator=(const Job&) = delete;

  // Blocks until the job is FINISHED or FAILED; from then on the library leaves its memory alone.
  void WaitToComplete();

  // Calls a function once, when the job ends, in the thread that ends it; at once where it has. The
  // function neither throws nor waits nor uses the context.
  void CallAtEnd(std::function<void()> callback);

  JobStatus GetJobStatus();

  // For the library. A status only ever grows; a step back is ignored.
  void SetJobStatus(JobStatus job_status);

  const JobId id_;
  const Tensor tensor_;
  const JobType job_type_;
  const ExtraJobInfo extra_job_info_;

 private:
  std::atomic<JobStatus> job_status_;
  std::mutex mutex_;
  std::condition_variable done_;
  std::function<void()> at_end_;
};

}  // namespace switchml

#endif  // SWITCHML_JOB_H_
