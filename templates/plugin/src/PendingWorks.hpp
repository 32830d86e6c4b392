/// The delegated works of a group that have not ended.
#pragma once

#include <list>

#include "Group.hpp"
#include "base/mutex.hpp"

namespace switchml_delegate {

/// Keeps each delegated work alive until its thread is done with it.
///
/// Threads of the program call add() and incomplete(), pool threads remove(). `mutex_` guards the
/// list.
class PendingWorks {
 public:
  using Works = std::list<c10::intrusive_ptr<c10d::Work>>;

  Works::iterator add(c10::intrusive_ptr<c10d::Work> work) EXCLUDES(mutex_);
  void remove(Works::iterator entry) EXCLUDES(mutex_);

  /// Returns the works whose futures are not completed: a barrier waits for these. A callback of a
  /// work may begin a barrier, so its own work is not among them.
  Works incomplete() EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  Works works_ GUARDED_BY(mutex_);
};

}  // namespace switchml_delegate
