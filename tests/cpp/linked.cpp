// The loader of a delegate that is linked with it. The variable NO_LIBRARY is the dynamic linker's
// error in a rank without the library. With NO_ADDRESS the linker does not know the loader's file.
#include <dlfcn.h>
#include <poll.h>

#include <atomic>
#include <cstdlib>

#include "threads.hpp"

namespace {

char handle;
std::atomic<int> vain{0};

int countedPoll(pollfd* entries, nfds_t count, int limit) {
  const int ready = poll(entries, count, limit);
  vain += ready == 0 && limit > 0 ? 1 : 0;
  return ready;
}

}  // namespace

int vainWaits() { return vain; }

#define dlopen(path, mode) (std::getenv("NO_LIBRARY") == nullptr ? &handle : nullptr)
#define dlsym(handle, name) reinterpret_cast<void*>(&switchml_delegate_interface)
#define dladdr(address, info) (std::getenv("NO_ADDRESS") != nullptr ? 0 : ::dladdr(address, info))
#define dlerror() std::getenv("NO_LIBRARY")
#define poll(entries, count, limit) countedPoll(entries, count, limit)
#include "SwitchMLLoader.cpp"
#undef poll
#undef dlopen
#undef dlsym
#undef dladdr
#undef dlerror
