/// A c10d work that a thread of the pool completes.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "FlightRecords.hpp"
#include "Group.hpp"

namespace switchml_delegate {

/// Properties of the call that made a work.
struct CallInfo {
  std::uint64_t sequence;
  std::chrono::milliseconds timeout;
  std::shared_ptr<std::atomic<int>> waiters;  // of the group: threads that wait for a work
  FlightRecords::Complete record;             // called when the call has succeeded
};

/// Work with a future.
///
///   1. A thread of the program makes it, and may wait for it or ask for its future.
///   2. A pool thread calls complete(), once. The callbacks of the future run there, before wait()
///      returns: so the collectives that callbacks call come before the caller's next.
///
/// c10d::Work has a mutex for its own state; the members here do not change.
class PoolWork : public c10d::Work {
 public:
  using Future = c10::ivalue::Future;

  PoolWork(c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
           std::vector<c10::Device> devices, CallInfo call);
  ~PoolWork() override;

  c10::intrusive_ptr<Future> getFuture() override { return future_; }
  bool wait(std::chrono::milliseconds timeout) override;

  // The next three are overrides if the Work of this torch has them. blockCurrentStream() lets the
  // caller wait: the future does not know of the copies to the device, so a stream must not wait
  // for the future instead.
  void blockCurrentStream() { wait(kNoTimeout); }
  std::uint64_t getSequencenumber() const { return call_.sequence; }
  std::chrono::milliseconds getTimeout() const { return call_.timeout; }

  /// Ends the work, with `failure` or with the tensors as its result.
  void complete(std::exception_ptr failure, const std::vector<at::Tensor>& tensors) noexcept;

 private:
  const CallInfo call_;
  c10::intrusive_ptr<Future> future_;
};

}  // namespace switchml_delegate
