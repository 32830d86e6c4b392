/// Threads with names, which ps -L, gdb and py-spy show.
#pragma once

#include <pthread.h>

#include <thread>
#include <utility>

namespace switchml_delegate {

/// Starts a thread with a name of at most 15 characters. Throws std::system_error if the process
/// can have no more threads.
template <typename Function>
std::thread startThread(const char* name, Function function) {
  return std::thread([name, function = std::move(function)]() mutable {
    pthread_setname_np(pthread_self(), name);
    function();
  });
}

}  // namespace switchml_delegate
