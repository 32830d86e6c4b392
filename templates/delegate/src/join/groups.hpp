/// Process groups of this process, and their numbers.
///
/// Ranks make groups of the same ranks in the same order, so these have the same numbers on all of
/// them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace switchml_delegate {

class GroupNumbers {
 public:
  /// Number of a new group among those of its size, from 1 on.
  std::uint64_t next(int size) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ++made_[size];
  }

 private:
  std::mutex mutex_;
  std::map<int, std::uint64_t> made_;  // by size
};

class Groups {
 public:
  /// Adds a group of `size` ranks, which has these contexts. Returns its number.
  std::uint64_t add(const std::vector<const void*>& contexts, int size) {
    std::unique_lock<std::mutex> lock(mutex_);
    groups_.push_back(contexts);
    lock.unlock();
    return numbers_.next(size);
  }

  void remove(const void* context) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto found = find(context); found != groups_.end()) {
      groups_.erase(found);
    }
  }

  /// False if the group that owns `context` has been removed.
  bool has(const void* context) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return find(context) != groups_.end();
  }

 private:
  using Contexts = std::vector<const void*>;

  std::vector<Contexts>::iterator find(const void* context) {
    return std::find_if(groups_.begin(), groups_.end(), [context](const Contexts& one) {
      return std::find(one.begin(), one.end(), context) != one.end();
    });
  }

  GroupNumbers numbers_;
  std::mutex mutex_;
  std::vector<Contexts> groups_;
};

}  // namespace switchml_delegate
