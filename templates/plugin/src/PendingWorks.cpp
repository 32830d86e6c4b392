#include "PendingWorks.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace switchml_delegate {

PendingWorks::Works::iterator PendingWorks::add(c10::intrusive_ptr<c10d::Work> work) {
  const MutexLock lock(mutex_);
  return works_.insert(works_.end(), std::move(work));
}

void PendingWorks::remove(Works::iterator entry) {
  Works removed;  // destroyed after the lock: a work may own the last reference to tensors
  const MutexLock lock(mutex_);
  removed.splice(removed.end(), works_, entry);
}

PendingWorks::Works PendingWorks::incomplete() {
  Works found;
  const MutexLock lock(mutex_);
  std::copy_if(works_.begin(), works_.end(), std::back_inserter(found),
               [](const auto& work) { return !work->getFuture()->completed(); });
  return found;
}

}  // namespace switchml_delegate
