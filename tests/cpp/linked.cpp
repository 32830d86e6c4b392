// The loader of a delegate that is linked with it. The variable NO_LIBRARY is the dynamic linker's
// error in a rank without the library. With NO_ADDRESS the linker does not know the loader's file.
#include <dlfcn.h>

#include <cstdlib>

namespace {

char handle;

}  // namespace

#define dlopen(path, mode) (std::getenv("NO_LIBRARY") == nullptr ? &handle : nullptr)
#define dlsym(handle, name) reinterpret_cast<void*>(&switchml_delegate_interface)
#define dladdr(address, info) (std::getenv("NO_ADDRESS") != nullptr ? 0 : ::dladdr(address, info))
#define dlerror() std::getenv("NO_LIBRARY")
#include "SwitchMLLoader.cpp"
#undef dlopen
#undef dlsym
#undef dladdr
#undef dlerror
