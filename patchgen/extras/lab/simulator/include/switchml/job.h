// A job: one collective operation on one tensor.
#ifndef SWITCHML_JOB_H_
#define SWITCHML_JOB_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "common.h"

namespace switchml {

enum JobType { ALLREDUCE, BROADCAST };

enum AllReduceOperation { SUM };

union ExtraJobInfo {
  AllReduceOperation allreduce_operation;
  int32_t broadcast_root_rank;
};

enum JobStatus { INIT, QUEUED, RUNNING, FINISHED, FAILED };

//   INIT ──▶ QUEUED ──▶ RUNNING ──▶ FINISHED or FAILED
//
// Any thread may call any member. A thread of the library ends the job.
class Job {
 public:
  Job(Tensor tensor, JobType job_type, ExtraJobInfo extra_job_info);
  ~Job();

  Job(const Job&) = delete;
  void operator=(const Job&) = delete;

  // Blocks until the job is FINISHED or FAILED. The library does not use the job's memory from then
  // on.
  void WaitToComplete();

  // Calls `callback` once: in the thread that ends the job, or at once if the job has ended. The
  // callback must not throw, wait or use the context.
  void CallAtEnd(std::function<void()> callback);

  JobStatus GetJobStatus();

  // For the library. Ignores a status before the current one.
  void SetJobStatus(JobStatus job_status);

  const JobId id_;
  const Tensor tensor_;
  const JobType job_type_;
  const ExtraJobInfo extra_job_info_;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace switchml

#endif  // SWITCHML_JOB_H_
