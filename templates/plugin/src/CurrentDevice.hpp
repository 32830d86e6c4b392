/// Makes a device the current one of a thread for one call.
#pragma once

#include <c10/core/DeviceGuard.h>

#include <exception>

namespace switchml_delegate {

/// Calls `function` while `device` is the current device, and drops its exceptions: a device that
/// has failed cannot be made current. For destructors; any thread may call this.
///
/// Every use of an event, its destruction too, belongs into such a call. Otherwise torch itself
/// makes the event's device the current one, and then goes back to the device before, on which CUDA
/// would make a context: hundreds of megabytes for each process. A guard goes back as well, but not
/// to a device without a context.
template <typename Function>
void tryOnDevice(c10::Device device, const Function& function) noexcept {
  try {
    const c10::DeviceGuard guard(device);
    function();
  } catch (const std::exception&) {
  }
}

}  // namespace switchml_delegate
