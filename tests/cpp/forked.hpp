// Forks of a program with threads under a sanitizer, for programs that include this.
#pragma once

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace {

const pid_t parent = getpid();

/// Returns whether all other threads of this process sleep.
bool othersSleep() {
  const auto own = std::to_string(syscall(SYS_gettid));
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::all_of(begin(tasks), end(tasks), [&](const auto& task) {
    std::string stat;
    std::getline(std::ifstream(task.path() / "stat"), stat);
    return task.path().filename() == own || stat.empty() || stat.find(") S ") != std::string::npos;
  });
}

/// Waits until no thread is inside an allocation. A fork leaves the locks of malloc() in order, but
/// the child would wait for ever for a lock of the sanitizer's allocator that another thread held.
void awaitSleep() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!othersSleep() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

const int prepared = pthread_atfork(awaitSleep, nullptr, nullptr);

}  // namespace

// LeakSanitizer asks it. A forked child has none of its parent's other threads, so what only their
// stacks hold would be a leak there.
extern "C" int __lsan_is_turned_off() { return getpid() == parent ? 0 : 1; }
