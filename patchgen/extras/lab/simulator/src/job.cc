#include "job.h"

#include <atomic>
#include <utility>

#include "mutex.h"

namespace switchml {
namespace {

std::atomic<JobId> next_id{0};

}  // namespace

// Status of a job. `mutex` guards the callback, and orders the end with the waits for it; the
// status is read without it.
struct Job::State {
  std::atomic<JobStatus> status{INIT};
  lab::Mutex mutex;
  lab::Condition ended;
  std::function<void()> callback LAB_GUARDED_BY(mutex);
};

Job::Job(Tensor tensor, JobType job_type, ExtraJobInfo extra_job_info)
    : id_(next_id++),
      tensor_(tensor),
      job_type_(job_type),
      extra_job_info_(extra_job_info),
      state_(std::make_unique<State>()) {}

Job::~Job() = default;

void Job::WaitToComplete() {
  lab::MutexLock lock(state_->mutex);
  state_->ended.Wait(lock, [this] { return state_->status >= FINISHED; });
}

void Job::CallAtEnd(std::function<void()> callback) {
  State& state = *state_;
  lab::MutexLock lock(state.mutex);
  if (state.status < FINISHED) {
    state.callback = std::move(callback);
    return;
  }
  lock.Unlock();
  callback();
}

JobStatus Job::GetJobStatus() { return state_->status; }

void Job::SetJobStatus(JobStatus job_status) {
  State& state = *state_;
  lab::MutexLock lock(state.mutex);
  if (job_status <= state.status || state.status == FINISHED) {
    return;
  }
  state.status = job_status;
  if (job_status < FINISHED) {
    return;
  }
  const auto callback = std::exchange(state.callback, nullptr);
  lock.Unlock();
  state.ended.NotifyAll();
  if (callback) {
    callback();
  }
}

}  // namespace switchml
