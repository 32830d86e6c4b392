// What no thread may do while it holds a lock of the delegate: open, resolve, connect, print, wait,
// or allocate without bound. Linked with a program of it, this ends a program that does.
#include "locks.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

constexpr std::size_t kMost = std::size_t{1} << 16U;  // bytes of one allocation

void refuse(const char* name) {
  if (locks::held > 0) {
    locks::held = 0;
    std::fprintf(stderr, "not so: no lock is held in %s()\n", name);
    void* frames[64];
    backtrace_symbols_fd(frames, backtrace(frames, 64), 2);
    _exit(1);
  }
}

}  // namespace

// Stands before the function of this name in the C library. None has more than four arguments, and
// all of them are passed as whole numbers are.
#define GUARD(name)                                                                                \
  extern "C" long guarded_##name(long one, long two, long three, long four) asm(#name);            \
  long guarded_##name(long one, long two, long three, long four) {                                 \
    refuse(#name);                                                                                 \
    static const auto real = reinterpret_cast<decltype(&guarded_##name)>(dlsym(RTLD_NEXT, #name)); \
    return real(one, two, three, four);                                                            \
  }

GUARD(clock_nanosleep)
GUARD(connect)
GUARD(dlopen)
GUARD(fopen)
GUARD(fopen64)
GUARD(fputs)
GUARD(fwrite)
GUARD(getaddrinfo)
GUARD(nanosleep)
GUARD(open)
GUARD(open64)
GUARD(openat)
GUARD(opendir)
GUARD(poll)
GUARD(read)
GUARD(realpath)
GUARD(send)
GUARD(stat)
GUARD(write)
GUARD(writev)

void* operator new(std::size_t size) {
  if (size > kMost) {
    refuse("operator new");
  }
  void* const memory = std::malloc(size);
  return memory == nullptr ? throw std::bad_alloc() : memory;
}
void* operator new[](std::size_t size) { return operator new(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t /*size*/) noexcept { std::free(memory); }
