#include "job.h"

#include <utility>

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

void Job::CallAtEnd(std::function<void()> callback) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (job_status_ < FINISHED) {
    at_end_ = std::move(callback);
    return;
  }
  lock.unlock();
  callback();
}

JobStatus Job::GetJobStatus() { return job_status_; }

void Job::SetJobStatus(JobStatus job_status) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (job_status <= job_status_ || job_status_ == FINISHED) {
    return;
  }
  job_status_ = job_status;
  if (job_status < FINISHED) {
    return;
  }
  const auto callback = std::exchange(at_end_, nullptr);
  lock.unlock();
  done_.notify_all();
  if (callback) {
    callback();
  }
}

}  // namespace switchml
