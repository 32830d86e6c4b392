// The loader of a delegate that is linked with it. NO_LIBRARY is why there is none in a rank. With
// NO_ADDRESS the dynamic linker does not say where the loader is.
#include <dlfcn.h>

#include <cstdlib>

namespace {
char handle;
}

#define dlopen(path, mode) (std::getenv("NO_LIBRARY") == nullptr ? &handle : nullptr)
#define dlsym(handle, name) reinterpret_cast<void*>(&switchml_delegate_interface)
#define dladdr(address, info) (std::getenv("NO_ADDRESS") != nullptr ? 0 : ::dladdr(address, info))
#define dlerror() std::getenv("NO_LIBRARY")
#include "SwitchMLLoader.cpp"
#undef dlopen
#undef dlsym
#undef dladdr
#undef dlerror
