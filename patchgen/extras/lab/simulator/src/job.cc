#include "job.h"

namespace switchml {
namespace {

std::atomic<JobId> next_id{0};

}  // namespace

Job::Job(Tensor tensor, JobType job_type, ExtraJobInfo extra_job_info)
    : id_(next_id++),
      tensor_(tensor),
      job_type_(job_type),
      extra_job_info_(extra_job_info),
      job_status_(INIT) {}

void Job::WaitToComplete() {
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, [this] { return job_status_ >= FINISHED; });
}

JobStatus Job::GetJobStatus() { return job_status_; }

void Job::SetJobStatus(JobStatus job_status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (job_status > job_status_ && job_status_ != FINISHED) {
    job_status_ = job_status;
    done_.notify_all();
  }
}

}  // namespace switchml
