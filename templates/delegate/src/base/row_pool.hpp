/// Threads that share the work on rows of elements with their callers.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/mutex.hpp"

namespace switchml_delegate {

/// Returns how many threads, the caller's among them, work on one row. `library` threads of the
/// client library have a processor each, which they may poll on. Four threads saturate the memory's
/// bandwidth.
std::size_t threadsFor(std::size_t processors, std::size_t library) noexcept;

/// Pool of threads for rows of elements:
///
/// 1. A caller adds its row, and takes parts of it from an atomic counter until none is left.
/// 2. Threads of the pool take parts of the row that was added last.
/// 3. The caller removes its row, and waits for the threads that still work on a part.
///
/// Any thread may call share(), which waits without a limit; a part cannot block. The pool is never
/// destroyed: its threads run until the process ends, which does not wait for them.
class RowPool {
 public:
  /// Starts `count` threads, or as many as the process can have. Only the first call starts
  /// threads, and no thread calls share() before it. The thread that starts the context calls this
  /// after each start; calls do not overlap.
  void start(std::size_t count) noexcept;

  /// Calls `function` with the begin and end of parts of `numel` elements, of `size` elements each,
  /// some of them at the same time. Returns when all calls have. `function` must not throw. A
  /// caller waits only for threads that have taken a part, because the others may be busy, and a
  /// forked child has none.
  template <typename Function>
  void share(std::uint64_t numel, std::uint64_t size, const Function& function) {
    static_assert(noexcept(function(numel, numel)), "threads of the pool cannot catch it");
    if (numel <= size || !hasThreads()) {
      return function(std::uint64_t{0}, numel);
    }
    Row row{numel, size, std::cref(function)};
    finish(row);
  }

 private:
  struct Row {
    const std::uint64_t numel;
    const std::uint64_t size;
    const std::function<void(std::uint64_t first, std::uint64_t last)> call;
    std::atomic<std::uint64_t> next{0};
    unsigned helpers = 0;  // threads of the pool that work on it; guarded by the pool's mutex

    /// Takes parts and works on them until none is left.
    void work();
  };

  bool hasThreads() const noexcept;

  /// Works on a row with the threads of the pool, and returns when all of it is done.
  void finish(Row& row) EXCLUDES(mutex_);

  /// Returns the newest row with parts that no thread has taken, or null. Parts are taken without
  /// the mutex, so none may be left when the caller takes one.
  Row* findOpenRow() const REQUIRES(mutex_);

  /// Loop of a thread of the pool.
  [[noreturn]] void help() EXCLUDES(mutex_);

  std::size_t count_ = 0;  // threads; constant after start()
  pid_t pid_ = 0;          // process that has started them; constant after start()
  Mutex mutex_;
  Condition rowAdded_;
  Condition helperLeft_;                       // the last helper has left a row
  std::vector<Row*> rows_ GUARDED_BY(mutex_);  // on the stacks of the callers of share()
};

}  // namespace switchml_delegate
