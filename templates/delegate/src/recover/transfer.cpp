#include "recover/transfer.hpp"

namespace switchml_delegate {

// The thread that waits is the only one that writes transfer_, so it reads transfer_ without the
// mutex.
bool PendingTransfer::wait(std::chrono::milliseconds limit) NO_THREAD_SAFETY_ANALYSIS {
  if (error_ && !aborted_) {
    std::rethrow_exception(error_);
  }
  return !aborted_ && (!transfer_.wait || transfer_.wait(limit));
}

void PendingTransfer::interrupt() noexcept {
  MutexLock lock(mutex_);
  const auto& abortTransfer = transfer_.abort;
  if (abortTransfer) {
    ++interrupts_;  // keeps end() from destroying the transfer
    lock.unlock();
    abortTransfer();
    lock.lock();
    --interrupts_;
    changed_.notify_all();
  }
}

void PendingTransfer::abort() noexcept {
  aborted_ = true;
  interrupt();
}

void PendingTransfer::end() noexcept {
  error_ = nullptr;
  MutexLock lock(mutex_);
  changed_.wait(lock, [this]() REQUIRES(mutex_) { return interrupts_ == 0; });
  // Destroy the transfer without the mutex: its destructor calls Gloo.
  const auto ended = std::exchange(transfer_, {});
  lock.unlock();
}

void PendingTransfer::set(Transfer transfer) noexcept {
  const MutexLock lock(mutex_);
  transfer_ = std::move(transfer);
}

}  // namespace switchml_delegate
