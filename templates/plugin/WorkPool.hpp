/// Threads that run the delegated work of a process group, first come, first served.
///
/// Knows nothing of torch or SwitchML.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace switchml_delegate {

class WorkPool {
  class State;

 public:
  /// One of the pool's places, which a job holds while it does its own part. Once it has released
  /// that for another thread, it may take any time, and call all members of the pool.
  class Place {
   public:
    void release() noexcept {
      if (held_) {
        held_ = false;
        state_.vacate();
      }
    }

   private:
    friend class State;
    explicit Place(State& state) : state_(state) {}
    State& state_;
    bool held_ = true;
  };

  /// Must not throw.
  using Job = std::function<void(Place&)>;

  /// `places`: the jobs that do their own part at a time.
  explicit WorkPool(std::size_t places) : state_(std::make_shared<State>(places)) {}
  /// Drains the pool. Jobs without a place go on.
  ~WorkPool() {
    if (forked()) {
      // The threads are the parent's, and the mutex may be locked for good.
      static_cast<void>(new std::shared_ptr<State>(std::move(state_)));
      return;
    }
    state_->drain();
    for (auto& thread : state_->stop()) {
      thread.join();
    }
  }
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  /// Throws, and does not take the job, in a forked child, or when neither a thread nor memory can
  /// be had.
  void submit(Job job) {
    if (forked()) {
      throw std::runtime_error("the threads are those of the process that this was forked from");
    }
    state_->push(std::move(job));
  }

  /// Returns when no job waits for a place or holds one. Does not wait for jobs without a place,
  /// which may drain the pool as well.
  void drain() {
    if (!forked()) {
      state_->drain();
    }
  }

  /// True in a child of the process that made the pool, which has none of its threads.
  bool forked() const { return state_->forked(); }

  /// State that lasts until all threads have ended, also after the pool. It has drain() and
  /// forked() as well, and finish(), which returns when all jobs have ended, or at the limit.
  std::weak_ptr<State> watch() const { return state_; }

 private:
  /// Shared with the threads: one whose job destroys the pool goes on for a moment.
  class State : public std::enable_shared_from_this<State> {
   public:
    explicit State(std::size_t places) : places_(places) {}
    bool forked() const { return pid_ != getpid(); }

    void push(Job job) {
      std::lock_guard<std::mutex> lock(mutex_);
      queue_.push_back(std::move(job));
      try {
        provideThread();
      } catch (const std::exception&) {  // no thread, or no memory for one
        if (taken_ == 0) {
          queue_.pop_back();
          throw;
        }
      }
    }

    void vacate() noexcept {
      std::lock_guard<std::mutex> lock(mutex_);
      --taken_;
      settled_.notify_all();
      try {
        provideThread();
      } catch (const std::exception&) {
        // This thread comes back for the queue when it is done.
      }
    }

    void drain() {
      std::unique_lock<std::mutex> lock(mutex_);
      settled_.wait(lock, [this] { return queue_.empty() && taken_ == idle_; });
    }

    void finish(std::chrono::milliseconds limit) {
      std::unique_lock<std::mutex> lock(mutex_);
      settled_.wait_for(lock, limit, [this] { return queue_.empty() && busy_.empty(); });
    }

    /// Stops the pool; returns the threads that have no job, to be joined.
    std::list<std::thread> stop() {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
      for (const auto id : busy_) {
        const auto thread = find(id);
        thread->detach();
        threads_.erase(thread);
      }
      return std::exchange(threads_, {});
    }

   private:
    /// Called with the mutex held: sees to it that a thread comes for every job that may run.
    void provideThread() {
      if (queue_.size() <= idle_) {
        changed_.notify_one();
      } else if (taken_ < places_) {
        busy_.reserve(threads_.size() + 1);  // a thread must not fail
        threads_.emplace_back([state = shared_from_this()] { state->work(); });
        ++taken_;
      }
    }

    void work() {
      std::unique_lock<std::mutex> lock(mutex_);
      for (bool placed = true; placed;) {
        ++idle_;
        settled_.notify_all();
        changed_.wait(lock, [this] { return !queue_.empty() || stopping_; });
        --idle_;
        if (queue_.empty()) {
          --taken_;
          break;
        }
        Job job = std::move(queue_.front());
        queue_.pop_front();
        busy_.push_back(std::this_thread::get_id());
        lock.unlock();
        Place place(*this);
        job(place);
        job = nullptr;
        lock.lock();
        busy_.erase(std::find(busy_.begin(), busy_.end(), std::this_thread::get_id()));
        settled_.notify_all();
        if (!place.held_) {
          placed = taken_ < places_;
          taken_ += placed ? 1 : 0;
        }
      }
      const auto self = find(std::this_thread::get_id());
      if (self != threads_.end()) {  // else the pool has let go of it
        self->detach();
        threads_.erase(self);
      }
    }

    std::list<std::thread>::iterator find(std::thread::id id) {
      return std::find_if(threads_.begin(), threads_.end(),
                          [id](const std::thread& thread) { return thread.get_id() == id; });
    }

    const std::size_t places_;
    const pid_t pid_ = getpid();
    std::mutex mutex_;
    std::condition_variable changed_;
    std::condition_variable settled_;
    std::deque<Job> queue_;
    std::list<std::thread> threads_;
    std::vector<std::thread::id> busy_;  // in a job, with or without a place
    std::size_t taken_ = 0;              // places, also of threads that wait for a job
    std::size_t idle_ = 0;               // threads that wait for a job
    bool stopping_ = false;
  };

  std::shared_ptr<State> state_;
};

}  // namespace switchml_delegate
