// A mutex whose use clang checks with -Wthread-safety, for the simulator and the software switch.
//
// It has a namespace of its own, although the delegate has such a header too: a rank links an
// installed simulator with a delegate that may be newer.
#ifndef SWITCHML_LAB_MUTEX_H_
#define SWITCHML_LAB_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#if defined(__clang__)
#define LAB_THREAD_ANNOTATION(annotation) __attribute__((annotation))
#else
#define LAB_THREAD_ANNOTATION(annotation)
#endif

// A member that only a thread which holds the mutex reads or writes.
#define LAB_GUARDED_BY(mutex) LAB_THREAD_ANNOTATION(guarded_by(mutex))
// A function that is called with the mutex held.
#define LAB_REQUIRES(mutex) LAB_THREAD_ANNOTATION(requires_capability(mutex))
// A function that takes the mutex itself.
#define LAB_EXCLUDES(mutex) LAB_THREAD_ANNOTATION(locks_excluded(mutex))

namespace lab {

class LAB_THREAD_ANNOTATION(capability("mutex")) Mutex {
 private:
  friend class MutexLock;
  friend class Condition;
  std::mutex mutex_;
};

// Holds a mutex until the end of its block, except between Unlock() and Lock().
class LAB_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) LAB_THREAD_ANNOTATION(acquire_capability(mutex))
      : lock_(mutex.mutex_) {}
  ~MutexLock() LAB_THREAD_ANNOTATION(release_capability()) {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Lock() LAB_THREAD_ANNOTATION(acquire_capability()) { lock_.lock(); }
  void Unlock() LAB_THREAD_ANNOTATION(release_capability()) { lock_.unlock(); }

 private:
  friend class Condition;
  std::unique_lock<std::mutex> lock_;
};

// Condition variable of threads that hold a MutexLock. A predicate that reads guarded members is a
// lambda with LAB_REQUIRES(mutex) behind its parameters: it is called with the mutex held.
class Condition {
 public:
  void NotifyOne() noexcept { condition_.notify_one(); }
  void NotifyAll() noexcept { condition_.notify_all(); }

  template <typename Predicate>
  void Wait(MutexLock& lock, Predicate holds) {
    condition_.wait(lock.lock_, std::move(holds));
  }

  // Returns after a notification, after `limit`, or for no reason.
  void WaitFor(MutexLock& lock, std::chrono::milliseconds limit) {
    condition_.wait_for(lock.lock_, limit);
  }

 private:
  std::condition_variable condition_;
};

}  // namespace lab

#endif  // SWITCHML_LAB_MUTEX_H_
