#pragma once

#include <unistd.h>

// LeakSanitizer asks it. A forked child has none of its parent's other threads, so what only their
// stacks hold would be a leak there.
namespace {
const pid_t parent = getpid();
}  // namespace

extern "C" int __lsan_is_turned_off() { return getpid() == parent ? 0 : 1; }
