/// Streams of the copies between a device and the host.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace switchml_delegate {

/// The two streams for all copies of one device. All groups of the process share them: torch has
/// few streams, and would hand out the same ones again.
///
/// The host queues a copy to the host only when its values are there, and a copy to the device only
/// when they are summed. So a copy waits only for other copies, and no call waits for the values of
/// another call.
struct CopyStreams {
  c10::Stream toHost;
  c10::Stream toDevice;

  /// Streams of a device, which the first call for it takes from torch's pool. Any thread may call
  /// this.
  static CopyStreams of(c10::Device device);
};

}  // namespace switchml_delegate
