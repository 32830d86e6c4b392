#include "Capture.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

namespace switchml_delegate {
namespace {

template <typename Function>
Function findSymbol(void* library, const char* name) {
  return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
}

template <typename Impl>
auto askDevice(const c10::Stream& stream, int /*preferred*/)
    -> decltype(Impl(stream.device_type()).isStreamCapturing(stream)) {
  return Impl(stream.device_type()).isStreamCapturing(stream);
}

template <typename Impl>
bool askDevice(const c10::Stream& stream, long /*otherwise*/) {
  return isCudaCapturing(stream);
}

}  // namespace

bool isCapturing(const c10::Stream& stream) {
  return askDevice<c10::impl::VirtualGuardImpl>(stream, 0);
}

bool isCudaCapturing(const c10::Stream& stream) {
  using GetHandle = void* (*)(const c10::Stream*);
  using GetStatus = int (*)(void* stream, int* status);
  static void* const library = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  static const auto getHandle =
      findSymbol<GetHandle>(library, "_ZNK3c104cuda10CUDAStream6streamEv");
  static const auto getStatus = findSymbol<GetStatus>(library, "cudaStreamIsCapturing");
  int status = 0;
  return getHandle != nullptr && getStatus != nullptr &&
         getStatus(getHandle(&stream), &status) == 0 && status != 0;
}

}  // namespace switchml_delegate
