// A mutex that knows how many of its kind a thread holds. Stands for std::mutex in the sources of
// the delegate, as tests/support/locks.py writes them.
#pragma once

#include <mutex>

namespace locks {

inline thread_local int held = 0;

class Mutex {
 public:
  void lock() {
    mutex_.lock();
    ++held;
  }
  bool try_lock() {
    const bool locked = mutex_.try_lock();
    held += locked ? 1 : 0;
    return locked;
  }
  void unlock() {
    --held;
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
};

}  // namespace locks
