/// Test whether a stream is being captured into a CUDA graph.
#pragma once

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <type_traits>
#include <utility>

namespace switchml_delegate {

/// For a torch whose devices cannot be asked. CUDA itself is asked, where torch has loaded it,
/// without its headers: a CUDAStream is a c10::Stream, and nothing else.
template <typename Impl, typename = void>
struct Capture {
  static bool isOf(const c10::Stream& stream) {
    using Handle = void* (*)(const c10::Stream*);
    using Ask = int (*)(void* stream, int* status);
    static void* const library = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    static const auto handle = find<Handle>(library, "_ZNK3c104cuda10CUDAStream6streamEv");
    static const auto ask = find<Ask>(library, "cudaStreamIsCapturing");
    int status = 0;
    return handle != nullptr && ask != nullptr && ask(handle(&stream), &status) == 0 && status != 0;
  }

 private:
  template <typename Function>
  static Function find(void* library, const char* name) {
    return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
  }
};

template <typename Impl>
struct Capture<Impl, std::void_t<decltype(std::declval<const Impl&>().isStreamCapturing(
                         std::declval<const c10::Stream&>()))>> {
  static bool isOf(const c10::Stream& stream) {
    return Impl(stream.device_type()).isStreamCapturing(stream);
  }
};

inline bool isCapturing(const c10::Stream& stream) {
  return Capture<c10::impl::VirtualGuardImpl>::isOf(stream);
}

}  // namespace switchml_delegate
