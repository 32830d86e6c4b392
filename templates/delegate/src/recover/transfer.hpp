/// A message to or from a neighbour in the ring, which other threads can interrupt.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <utility>

#include "SwitchMLInterface.hpp"
#include "base/forever.hpp"
#include "base/mutex.hpp"
#include "base/text.hpp"

namespace switchml_delegate {

/// One message after another. One thread at a time calls begin(), wait() and end(); any thread
/// calls interrupt() and abort(). After end(), Gloo no longer uses the message's memory. Gloo is
/// called without the mutex.
class PendingTransfer {
 public:
  ~PendingTransfer() { end(); }

  /// Ends the previous message, and begins the one that `start` returns. If `start` throws, wait()
  /// throws the same.
  template <typename Function>
  void begin(const Function& start) noexcept {
    end();
    Transfer started;
    try {
      if (!aborted_) {
        started = start();  // may wait until the neighbour connects
      }
    } catch (...) {
      error_ = std::current_exception();
    }
    set(std::move(started));
  }

  /// Returns true when the message has arrived, false if it was interrupted. Throws as Transfer
  /// does.
  bool wait(std::chrono::milliseconds limit = kForever);

  /// Interrupts the wait for the message that has begun.
  void interrupt() noexcept;

  /// Interrupts this message and all later ones.
  void abort() noexcept;

  /// Ends the message, after the calls of interrupt() that are under way.
  void end() noexcept;

 private:
  void set(Transfer transfer) noexcept;

  Mutex mutex_;
  Condition changed_;
  Transfer transfer_ GUARDED_BY(mutex_);
  int interrupts_ GUARDED_BY(mutex_) = 0;  // threads inside transfer_.abort()
  std::exception_ptr error_;               // of `start`; only for the thread that calls begin()
  std::atomic<bool> aborted_{false};
};

}  // namespace switchml_delegate
