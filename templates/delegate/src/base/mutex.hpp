/// Mutexes whose use clang checks: -Wthread-safety reports each access to a member that is
/// GUARDED_BY a mutex which the thread does not hold. The mutexes of the C++ library have no such
/// annotations.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#if defined(__clang__)
#define SWITCHML_THREAD_ANNOTATION(annotation) __attribute__((annotation))
#else
#define SWITCHML_THREAD_ANNOTATION(annotation)
#endif

/// A member that only a thread which holds the mutex reads or writes.
#define GUARDED_BY(mutex) SWITCHML_THREAD_ANNOTATION(guarded_by(mutex))
/// A pointer whose target only a thread which holds the mutex reads or writes.
#define PT_GUARDED_BY(mutex) SWITCHML_THREAD_ANNOTATION(pt_guarded_by(mutex))
/// A function that is called with the mutex held.
#define REQUIRES(...) SWITCHML_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
/// A function that takes the mutex itself, and would wait for ever if its caller held it.
#define EXCLUDES(...) SWITCHML_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
/// A function that clang cannot check. Say why beside it.
#define NO_THREAD_SAFETY_ANALYSIS SWITCHML_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace switchml_delegate {

class SWITCHML_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void lock() SWITCHML_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void unlock() SWITCHML_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

/// Holds a mutex until the end of its block, except between unlock() and lock().
class SWITCHML_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) SWITCHML_THREAD_ANNOTATION(acquire_capability(mutex))
      : mutex_(mutex), held_(true) {
    mutex_.lock();
  }
  ~MutexLock() SWITCHML_THREAD_ANNOTATION(release_capability()) {
    if (held_) {
      mutex_.unlock();
    }
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() SWITCHML_THREAD_ANNOTATION(acquire_capability()) {
    mutex_.lock();
    held_ = true;
  }
  void unlock() SWITCHML_THREAD_ANNOTATION(release_capability()) {
    held_ = false;
    mutex_.unlock();
  }

 private:
  friend class Condition;
  Mutex& mutex_;
  bool held_;
};

/// Condition variable of threads that hold a MutexLock.
///
/// A predicate must not throw. One that reads guarded members is a lambda with REQUIRES(mutex)
/// behind its parameters. It is called with the mutex held, which clang does not see in these
/// functions.
class Condition {
 public:
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

  template <typename Predicate>
  void wait(MutexLock& lock, Predicate holds) NO_THREAD_SAFETY_ANALYSIS {
    auto native = adopt(lock);
    condition_.wait(native, std::move(holds));
    native.release();
  }

  /// False if the predicate does not hold when the time has passed.
  template <typename Clock, typename Duration, typename Predicate>
  bool wait_until(MutexLock& lock, std::chrono::time_point<Clock, Duration> deadline,
                  Predicate holds) NO_THREAD_SAFETY_ANALYSIS {
    auto native = adopt(lock);
    const bool held = condition_.wait_until(native, deadline, std::move(holds));
    native.release();
    return held;
  }

  template <typename Rep, typename Period, typename Predicate>
  bool wait_for(MutexLock& lock, std::chrono::duration<Rep, Period> limit,
                Predicate holds) NO_THREAD_SAFETY_ANALYSIS {
    return wait_until(lock, std::chrono::steady_clock::now() + limit, std::move(holds));
  }

 private:
  static std::unique_lock<std::mutex> adopt(MutexLock& lock) {
    return std::unique_lock<std::mutex>(lock.mutex_.mutex_, std::adopt_lock);
  }

  std::condition_variable condition_;
};

}  // namespace switchml_delegate
