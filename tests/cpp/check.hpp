// What the test programs have in common: facts, limits, exceptions, threads and children.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

/// Limit of a wait that only a fault makes long.
constexpr auto kEnough = std::chrono::minutes(2);

/// Ends the process where a fact does not hold.
inline void check(bool holds, const std::string& what) {
  if (!holds) {
    std::fprintf(stderr, "not so: %s\n", what.c_str());
    std::_Exit(1);
  }
}

/// Waits for a fact that another thread brings about; the test's own limit ends it.
template <typename Fact>
void until(const Fact& fact) {
  while (!fact()) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

/// Point at which a number of threads wait until all of them are there.
class Meeting {
 public:
  explicit Meeting(unsigned wanted) : wanted_(wanted) {}

  /// Returns false if the others are not there within `kEnough`.
  bool join() {
    std::unique_lock<std::mutex> lock(mutex_);
    ++come_;
    changed_.notify_all();
    return changed_.wait_for(lock, kEnough, [this] { return come_ >= wanted_; });
  }

 private:
  const unsigned wanted_;
  unsigned come_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// What a call throws; empty where it does not.
template <typename Call>
std::string thrown(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// Calls a function with each number below `count`, each in a thread of its own.
template <typename Function>
void inThreads(std::size_t count, const Function& function) {
  std::vector<std::thread> threads;
  for (std::size_t number = 0; number < count; ++number) {
    threads.emplace_back([&function, number] { function(number); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

/// Calls a function in a child, which is to end with an exit code; returns the child's id.
template <typename Function>
pid_t inChild(const Function& function, int code = 0) {
  const auto child = fork();
  if (child == 0) {
    function();
    _exit(0);
  }
  int status = 0;
  check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == code,
        "the child ends as it should");
  return child;
}
