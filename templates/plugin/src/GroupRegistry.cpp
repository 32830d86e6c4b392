#include "GroupRegistry.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace switchml_delegate {
namespace {

constexpr std::chrono::minutes kLimit(30);  // c10d's own default timeout

}  // namespace

GroupRegistry& GroupRegistry::instance() {
  static auto* const registry = new GroupRegistry;
  return *registry;
}

void GroupRegistry::add(std::weak_ptr<WorkPool::State> pool,
                        std::shared_ptr<const std::atomic<int>> waiters) {
  const MutexLock lock(mutex_);
  groups_.erase(std::remove_if(groups_.begin(), groups_.end(),
                               [](const Entry& group) { return group.pool.expired(); }),
                groups_.end());
  groups_.push_back({std::move(pool), std::move(waiters)});
}

void GroupRegistry::waitUntilIdle() {
  MutexLock lock(mutex_);
  const auto groups = groups_;
  lock.unlock();
  for (const auto& group : groups) {
    const auto pool = group.pool.lock();
    if (pool != nullptr && !pool->forked() && *group.waiters == 0) {
      pool->waitUntilIdle(kLimit);
    }
  }
}

}  // namespace switchml_delegate
