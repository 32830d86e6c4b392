/// Threads that run the delegated work of a process group, in the order in which it is submitted.
///
/// Knows nothing of torch or SwitchML.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.hpp"

namespace switchml_delegate {

/// Pool of the threads of one process group.
///
/// A job holds a slot while it sums. Slots limit how many jobs sum at a time, not how many threads
/// there are: a job that has released its slot keeps its thread for as long as its callbacks take.
///
///   1. submit() appends the job to the queue. It wakes an idle thread, or starts one if a slot is
///      free.
///   2. A thread with a slot takes the oldest job. So jobs begin in the order of submit(), and the
///      oldest job that has not ended always has a thread.
///   3. The job sums, and calls Slot::release(). The pool wakes or starts a thread for the next
///      job.
///   4. The job runs the callbacks of its work, and returns. Its thread goes on at 2. if it still
///      has its slot or another slot is free, and ends otherwise.
///   5. The destructor waits until no job is queued or holds a slot, and joins the idle threads. It
///      detaches the threads whose jobs have released their slots.
///
/// States of a thread:
///
///     idle ──job──▶ with slot ──release()──▶ without slot ──slot free──▶ idle
///       ▲               │                          │
///       └──job returns──┘                          └──no slot free──▶ ended
///
/// Any thread may call all members. A job may call them too once it has released its slot, and may
/// drop the last reference to the pool.
class WorkPool {
 public:
  class State;

  /// Permission of one job to sum. Only the job's thread uses it.
  class Slot {
   public:
    /// Lets another job have the slot. Does nothing the second time.
    void release() noexcept;

   private:
    friend class State;
    explicit Slot(State& state) : state_(state) {}
    State& state_;
    bool held_ = true;
  };

  /// Must not throw.
  using Job = std::function<void(Slot&)>;

  /// `slots`: how many jobs sum at a time.
  explicit WorkPool(std::size_t slots);
  /// Drains the pool. Jobs that have released their slots go on.
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  /// Throws, and does not take the job, in a forked child, or if neither a thread nor memory can be
  /// had.
  void submit(Job job);

  /// Waits until no job is queued or holds a slot. Does not wait for jobs that have released their
  /// slots, because these may drain the pool too.
  void drain();

  /// True in a child of the process that made the pool: the child has none of its threads.
  bool forked() const;

  /// State of the pool, which lives until all threads have ended, also after the pool.
  std::weak_ptr<State> watch() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

/// Queue and threads of a pool. The threads share it with the pool, because a thread whose job
/// destroys the pool goes on for a moment.
///
/// Any thread calls the public members. `mutex_` guards everything that changes.
class WorkPool::State : public std::enable_shared_from_this<State> {
 public:
  explicit State(std::size_t slots);

  bool forked() const;
  void push(Job job) EXCLUDES(mutex_);
  void releaseSlot() noexcept EXCLUDES(mutex_);
  void drain() EXCLUDES(mutex_);

  /// Waits until all jobs have ended, with or without a slot, or for `limit`.
  void waitUntilIdle(std::chrono::milliseconds limit) EXCLUDES(mutex_);

  /// Stops the pool. Returns the threads without a job, which the caller joins.
  std::list<std::thread> stop() EXCLUDES(mutex_);

 private:
  /// Wakes or starts a thread for the newest queued job, if a slot is free for it.
  void provideThread() REQUIRES(mutex_);

  /// Takes jobs until the pool stops or the thread has no slot. Runs in each thread of the pool.
  void work() EXCLUDES(mutex_);

  std::list<std::thread>::iterator find(std::thread::id id) REQUIRES(mutex_);

  const std::size_t slots_;
  const pid_t pid_;
  Mutex mutex_;
  Condition submitted_;  // a job was queued, or the pool stops
  Condition released_;   // a job has released its slot or has ended, or a thread is idle
  std::deque<Job> queue_ GUARDED_BY(mutex_);
  std::list<std::thread> threads_ GUARDED_BY(mutex_);
  std::vector<std::thread::id> busy_ GUARDED_BY(mutex_);  // in a job, with or without a slot
  std::size_t slotsInUse_ GUARDED_BY(mutex_) = 0;         // with those of idle threads
  std::size_t idle_ GUARDED_BY(mutex_) = 0;               // threads that wait for a job
  bool stopping_ GUARDED_BY(mutex_) = false;
};

}  // namespace switchml_delegate
