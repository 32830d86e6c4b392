/// The groups of this process, whose delegated works must end before Python does.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "WorkPool.hpp"
#include "base/mutex.hpp"

namespace switchml_delegate {

/// Pools of all groups of this process. Never destroyed: the end of the program waits here.
///
/// Threads of the program make groups, and the main thread waits for them when the program ends.
/// `mutex_` guards the list, and is not held during the wait.
class GroupRegistry {
 public:
  static GroupRegistry& instance();

  /// Adds a group by its pool. `waiters`: how many threads wait for a work of the group.
  void add(std::weak_ptr<WorkPool::State> pool, std::shared_ptr<const std::atomic<int>> waiters)
      EXCLUDES(mutex_);

  /// Waits until the pools of all groups are idle, for at most 30 minutes each. Does not wait for a
  /// group for which a thread of the program waits: that group stays until the process ends, as
  /// Gloo's does.
  void waitUntilIdle() EXCLUDES(mutex_);

 private:
  struct Entry {
    std::weak_ptr<WorkPool::State> pool;
    std::shared_ptr<const std::atomic<int>> waiters;
  };

  Mutex mutex_;
  std::vector<Entry> groups_ GUARDED_BY(mutex_);
};

}  // namespace switchml_delegate
