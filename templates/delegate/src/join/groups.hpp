/// Process groups of this process, and their numbers.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/mutex.hpp"

namespace switchml_delegate {

/// Groups by the contexts that they own. Any thread calls the functions.
class Groups {
 public:
  /// Adds a group of `size` ranks, which has these contexts. Returns its number among the groups of
  /// its size, from 1 on. Ranks make groups of the same ranks in the same order, so a group has the
  /// same number on all of them.
  std::uint64_t add(const std::vector<const void*>& contexts, int size) EXCLUDES(mutex_);

  void remove(const void* context) EXCLUDES(mutex_);

  /// False if the group that owns `context` has been removed.
  bool has(const void* context) EXCLUDES(mutex_);

 private:
  using Contexts = std::vector<const void*>;

  std::vector<Contexts>::iterator find(const void* context) REQUIRES(mutex_);

  Mutex mutex_;
  std::vector<Contexts> groups_ GUARDED_BY(mutex_);
  std::map<int, std::uint64_t> made_ GUARDED_BY(mutex_);  // groups so far, by size
};

}  // namespace switchml_delegate
