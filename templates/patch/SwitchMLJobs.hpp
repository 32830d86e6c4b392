/// Waiting for jobs of the SwitchML context, with a limit.
///
/// The library's own wait has no limit, and to poll costs time or a core. Jobs end in the order in
/// which they were submitted, so one thread waits for each in turn and tells the one who waits.
#pragma once

#include <switchml/context.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace switchml_torch {

/// Its thread keeps it until all are given up and none is left. A job that never ends keeps the
/// thread, and the end of a process does not wait for it.
class Jobs {
 public:
  /// A job that has been submitted, or is about to be.
  class Entry {
    friend class Jobs;
    using Clock = std::chrono::steady_clock;
    std::shared_ptr<switchml::Job> job_;
    std::shared_ptr<Entry> next_;
    Clock::time_point turn_ = Clock::time_point::max();
    bool ended_ = false;
  };

  /// Number of jobs whose end nobody has seen yet.
  std::atomic<std::uint64_t> unfinished{0};

  /// Starts the thread. Throws std::system_error where there is none to be had.
  static void start(const std::shared_ptr<Jobs>& jobs) {
    std::thread([jobs] { jobs->run(); }).detach();
  }

  /// Called in the order in which jobs are submitted. Needs no memory: nothing may fail once a job
  /// is submitted.
  void add(const std::shared_ptr<Entry>& entry, std::shared_ptr<switchml::Job> job) noexcept {
    entry->job_ = std::move(job);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      (first_ ? last_->next_ : first_) = entry;
      last_ = entry.get();
    }
    added_.notify_one();
  }

  /// The time at which all jobs before it had ended; waits for that. Now where all are given up.
  std::chrono::steady_clock::time_point turn(Entry& entry) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return entry.turn_ != Entry::Clock::time_point::max() || givenUp_; });
    return std::min(entry.turn_, Entry::Clock::now());
  }

  /// The status of a job that has ended, or RUNNING: at the deadline, when all are given up, or
  /// when `isLost`, which is asked each second, says that it cannot end.
  switchml::JobStatus wait(Entry& entry, std::chrono::steady_clock::time_point deadline,
                           const std::function<bool()>& isLost) {
    constexpr auto kLook = std::chrono::seconds(1);
    const auto isOver = [&] { return entry.ended_ || givenUp_; };
    std::unique_lock<std::mutex> lock(mutex_);
    for (auto now = Entry::Clock::now();
         !changed_.wait_until(lock, std::min(deadline, now + kLook), isOver);) {
      now = Entry::Clock::now();
      if (now >= deadline || isLost()) {
        break;
      }
    }
    return entry.ended_ ? entry.job_->GetJobStatus() : switchml::RUNNING;
  }

  /// Nobody waits any more.
  void giveUp() noexcept {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      givenUp_ = true;
    }
    added_.notify_all();
    changed_.notify_all();
  }

 private:
  void run() {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      added_.wait(lock, [this] { return first_ != nullptr || givenUp_; });
      if (first_ == nullptr) {
        return;
      }
      const auto entry = std::exchange(first_, nullptr);
      first_ = std::move(entry->next_);
      entry->turn_ = Entry::Clock::now();
      lock.unlock();
      changed_.notify_all();
      entry->job_->WaitToComplete();
      lock.lock();
      entry->ended_ = true;
      lock.unlock();
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable added_;
  std::condition_variable changed_;  // a job's turn has come, or it has ended
  std::shared_ptr<Entry> first_;     // of those that nobody waits for yet
  Entry* last_ = nullptr;            // of them, if there is one
  bool givenUp_ = false;
};

}  // namespace switchml_torch
