/// Threads that stay, and take parts of a row off the one who works on it; and threads that are
/// left alone.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace switchml_delegate {

/// Threads for one row, the caller's among them. The library's own have a processor each, which
/// they may poll on. Of what they leave, four are enough for what memory has to give.
inline std::size_t threadsFor(std::size_t processors, std::size_t library) noexcept {
  constexpr std::size_t kMost = 4;
  return processors > library ? std::min(processors - library, kMost) : 1;
}

/// Result or error of `function`, or null where it takes longer than `limit`. It goes on then, for
/// ever perhaps.
template <typename Function>
std::unique_ptr<std::string> resultWithin(std::chrono::milliseconds limit, Function function) {
  std::packaged_task<std::string()> task(std::move(function));
  auto answer = task.get_future();
  try {
    std::thread(std::move(task)).detach();
    return answer.wait_for(limit) == std::future_status::ready
               ? std::make_unique<std::string>(answer.get())
               : nullptr;
  } catch (const std::exception& error) {
    return std::make_unique<std::string>(error.what());
  }
}

/// Never destroyed: the end of a process does not wait for the threads.
class Threads {
 public:
  /// Called before the first share(); does nothing later. Where no more threads can be had, there
  /// are fewer.
  void start(std::size_t count) noexcept {
    if (pid_ != 0) {
      return;
    }
    pid_ = getpid();
    try {
      for (; count_ < count; ++count_) {
        std::thread([this] { help(); }).detach();
      }
    } catch (const std::exception&) {
    }
  }

  /// Calls `function` with the begins and ends of parts of `numel`, of `size` each, some of them at
  /// once, and returns when all are done. It must not throw. The caller takes parts as well, so it
  /// waits for no thread that has taken none: others may be busy, or not be there in a forked
  /// child.
  template <typename Function>
  void share(std::uint64_t numel, std::uint64_t size, const Function& function) {
    static_assert(noexcept(function(numel, numel)), "nobody is there to catch it");
    if (numel <= size || count_ == 0 || pid_ != getpid()) {
      return function(std::uint64_t{0}, numel);
    }
    Row row{numel, size, std::cref(function)};
    std::unique_lock<std::mutex> lock(mutex_);
    rows_.push_back(&row);
    lock.unlock();
    added_.notify_all();
    row.work();
    lock.lock();
    rows_.erase(std::find(rows_.begin(), rows_.end(), &row));
    left_.wait(lock, [&row] { return row.helpers == 0; });
  }

 private:
  struct Row {
    std::uint64_t numel;
    std::uint64_t size;
    std::function<void(std::uint64_t first, std::uint64_t last)> call;
    std::atomic<std::uint64_t> next{0};
    unsigned helpers = 0;

    void work() {
      for (;;) {
        const auto first = next.fetch_add(size, std::memory_order_relaxed);
        if (first >= numel) {
          return;
        }
        call(first, std::min(first + size, numel));
      }
    }
  };

  /// Called with the mutex held. A row of which parts are left, or null. The parts are taken
  /// without the mutex, so the next call may find none.
  Row* open() const {
    const auto found = std::find_if(rows_.rbegin(), rows_.rend(), [](const Row* row) {
      return row->next.load(std::memory_order_relaxed) < row->numel;
    });
    return found == rows_.rend() ? nullptr : *found;
  }

  [[noreturn]] void help() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      Row* row = nullptr;
      added_.wait(lock, [this, &row] { return (row = open()) != nullptr; });
      ++row->helpers;
      lock.unlock();
      row->work();
      lock.lock();
      if (--row->helpers == 0) {
        left_.notify_all();
      }
    }
  }

  std::size_t count_ = 0;
  pid_t pid_ = 0;
  std::mutex mutex_;
  std::condition_variable added_;
  std::condition_variable left_;
  std::vector<Row*> rows_;  // on the stacks of those who share them
};

}  // namespace switchml_delegate
