#include "session.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "log.h"
#include "protocol.h"

namespace switchml {

Session::Session(const GeneralConfig& config, bool external_aggregator, Stats& stats)
    : rank_(config.rank),
      instant_(config.instant_job_completion),
      stats_(stats),
      aggregator_(),
      worker_([&] {
        const Endpoint endpoint{config.controller_ip_str, config.controller_port};
        const Hello hello = MakeHello(config);
        const auto limit = JobLimit(config);
        if (config.rank == 0 && !external_aggregator) {
          aggregator_.emplace(endpoint, hello);
        }
        return Worker(endpoint, hello, limit, stats_, [this] {
          const lab::MutexLock lock(mutex_);
          End(FINISHED);
        });
      }()),
      thread_([this] { Run(); }) {}

void Session::Submit(std::shared_ptr<Job> job) {
  {
    const lab::MutexLock lock(mutex_);
    if (!stopping_) {
      job->SetJobStatus(QUEUED);
      queue_.push_back(std::move(job));
    }
  }
  if (job) {
    job->SetJobStatus(FAILED);
    return;
  }
  submitted_.NotifyOne();
}

void Session::WaitForAll() {
  lab::MutexLock lock(mutex_);
  idle_.Wait(lock, [this]() LAB_REQUIRES(mutex_) { return queue_.empty(); });
}

void Session::Stop() {
  {
    const lab::MutexLock lock(mutex_);
    if (!stopping_) {
      stopping_ = true;
      if (!queue_.empty()) {
        worker_.Disconnect();
      }
    }
  }
  submitted_.NotifyOne();
  if (thread_.joinable()) {
    thread_.join();
  }
  aggregator_.reset();
}

void Session::Run() {
  lab::MutexLock lock(mutex_);
  for (;;) {
    submitted_.Wait(lock, [this]() LAB_REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) {
      break;
    }
    if (stopping_ || instant_ || !failure_.empty()) {
      End(instant_ && !stopping_ ? FINISHED : FAILED);
      continue;
    }
    const std::shared_ptr<Job> next = begun_ < queue_.size() ? queue_[begun_++] : nullptr;
    lock.Unlock();
    DoNext(next.get());
    lock.Lock();
  }
  lock.Unlock();
  if (failure_.empty()) {
    try {
      worker_.SayGoodbye();
    } catch (const std::exception&) {
      // The other workers see the connection close.
    }
  }
  worker_.Disconnect();
}

void Session::DoNext(const Job* next) {
  try {
    if (next != nullptr) {
      worker_.Begin(next->tensor_, next->extra_job_info_.allreduce_operation);
    } else {
      worker_.Finish();
    }
    return;
  } catch (const std::exception& error) {
    failure_ = error.what();
  }
  worker_.Disconnect();
  Log("rank " + std::to_string(rank_) + ": this and all later jobs fail: " + failure_);
}

void Session::End(JobStatus status) {
  if (status == FINISHED) {
    stats_.IncJobsFinishedNum();
  }
  queue_.front()->SetJobStatus(status);
  queue_.pop_front();
  begun_ -= std::min<size_t>(begun_, 1);
  if (queue_.empty()) {
    idle_.NotifyAll();
  }
}

}  // namespace switchml
