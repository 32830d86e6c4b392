#include "CopyStreams.hpp"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>

#include "base/mutex.hpp"

namespace switchml_delegate {
namespace {

/// Streams of each device that was used. Never destroyed. `mutex_` guards the table.
class StreamTable {
 public:
  CopyStreams of(c10::Device device) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    auto found = streams_.find(device.index());
    if (found == streams_.end()) {
      const c10::DeviceGuard guard(device);
      const c10::impl::VirtualGuardImpl impl(device.type());
      const auto fromPool = [&] {
        return impl.getStreamFromGlobalPool(device, /*isHighPriority=*/true);
      };
      found = streams_.emplace(device.index(), CopyStreams{fromPool(), fromPool()}).first;
    }
    return found->second;
  }

 private:
  Mutex mutex_;
  std::map<c10::DeviceIndex, CopyStreams> streams_ GUARDED_BY(mutex_);
};

}  // namespace

CopyStreams CopyStreams::of(c10::Device device) {
  static auto* const table = new StreamTable;
  return table->of(device);
}

}  // namespace switchml_delegate
