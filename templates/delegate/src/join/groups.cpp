#include "join/groups.hpp"

#include <algorithm>

namespace switchml_delegate {

std::uint64_t Groups::add(const std::vector<const void*>& contexts, int size) {
  const MutexLock lock(mutex_);
  groups_.push_back(contexts);
  return ++made_[size];
}

void Groups::remove(const void* context) {
  const MutexLock lock(mutex_);
  if (const auto found = find(context); found != groups_.end()) {
    groups_.erase(found);
  }
}

bool Groups::has(const void* context) {
  const MutexLock lock(mutex_);
  return find(context) != groups_.end();
}

std::vector<Groups::Contexts>::iterator Groups::find(const void* context) {
  return std::find_if(groups_.begin(), groups_.end(), [context](const Contexts& one) {
    return std::find(one.begin(), one.end(), context) != one.end();
  });
}

}  // namespace switchml_delegate
