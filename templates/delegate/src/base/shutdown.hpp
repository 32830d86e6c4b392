/// The end of the process: who waits for what, in which order, and for how long.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace switchml_delegate {

/// Limits of the waits when the process exits (see Shutdown).
struct ShutdownLimits {
  std::chrono::milliseconds metrics = std::chrono::seconds(2);
  std::chrono::milliseconds stop = std::chrono::seconds(5);
  std::chrono::milliseconds flush = std::chrono::seconds(2);
  std::chrono::milliseconds held = std::chrono::minutes(1);
};

/// Ends the delegate when the process exits. There is one for a process and its forked children.
///
/// on_exit(3) registers run(). So exit() calls it, in the thread that exits, before it destroys the
/// static objects that were made before a call of contextStarts(). Those of the client library are
/// made before its first start, and during it.
///
///   1. Note the status, and the sequence number that the next call takes. From here on, a thread
///      whose call began before the exit stays in its Barrier: Python would end the process with
///      SIGABRT if the thread came back. The Barrier ends the process after ShutdownLimits::held if
///      it still runs then. A call that is made later, as by the destructor of a static object,
///      returns.
///   2. Write the metrics for the last time, within ShutdownLimits::metrics.
///   3. Fail all calls, and stop the context, within ShutdownLimits::stop.
///   4. Return to exit(). If the context has not stopped, and in a forked child, which has none of
///      the library's threads, end the process here instead: flush the program's streams, within
///      ShutdownLimits::flush, since another thread may be inside of one and keep its lock. SIGALRM
///      ends the process at that limit.
///
/// Without a context, run() writes the metrics and returns. The class has no lock and needs no
/// memory, so it also ends a forked child without memory.
class Shutdown {
 public:
  /// What run() ends. The thread that exits calls each function at most once, in this order.
  class Participant {
   public:
    /// Sequence number that the next call takes.
    virtual std::uint64_t nextSequence() noexcept = 0;
    virtual void writeLastMetrics(std::chrono::milliseconds limit) noexcept = 0;
    /// False in a forked child.
    virtual bool ownsContext() noexcept = 0;
    /// Fails all calls and stops the context. Returns whether it has stopped within the limit.
    virtual bool stop(std::chrono::milliseconds limit) noexcept = 0;

   protected:
    ~Participant() = default;
  };

  /// Held by a call of the delegate that may take a while: Interface's reduce(), join(), leave()
  /// and abort(). Its destructor keeps the thread if the process exits and the call began before
  /// that.
  class Barrier {
   public:
    ~Barrier();
    Barrier(const Barrier&) = delete;
    Barrier& operator=(const Barrier&) = delete;

   private:
    friend class Shutdown;
    Barrier(const Shutdown& shutdown, bool holds) : shutdown_(shutdown), holds_(holds) {}

    const Shutdown& shutdown_;
    const bool holds_;
  };

  /// `find` returns what this process has to end, or null in a forked child without memory.
  explicit Shutdown(Participant* (*find)() noexcept, ShutdownLimits limits = {})
      : find_(find), limits_(limits) {}
  Shutdown(const Shutdown&) = delete;
  Shutdown& operator=(const Shutdown&) = delete;

  /// Called by any thread when metrics are written, and before and after the first start of the
  /// context. They have exit() call run(), which cannot be undone, so a Shutdown is never
  /// destroyed. Only the first run() does something.
  void metricsStarted() noexcept;
  void contextStarts() noexcept;

  /// Called by any thread at the beginning of a call; `sequence` is its number, if it has one.
  Barrier barrier(std::uint64_t sequence = UINT64_MAX) const noexcept;

 private:
  enum class State : std::uint8_t { kWithoutContext, kWithContext, kExiting };

  void schedule() noexcept;
  void run(int status) noexcept;
  [[noreturn]] void endNow() const noexcept;

  Participant* (*const find_)() noexcept;
  const ShutdownLimits limits_;
  std::atomic<State> state_{State::kWithoutContext};
  std::atomic<std::uint64_t> nextSequence_{0};    // when the exit began
  static inline std::atomic<int> exitStatus_{0};  // static for the handler of a signal
};

}  // namespace switchml_delegate
