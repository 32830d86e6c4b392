/// Host memory for the tensors of an accelerator: SwitchML sums in host memory only.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "CopyStreams.hpp"
#include "SwitchMLAllreduce.hpp"

namespace switchml_delegate {

/// Limits of the host's waits for a device.
struct WaitOptions {
  std::chrono::milliseconds timeout;                 // of each wait
  std::shared_ptr<const std::atomic<bool>> aborted;  // ends all waits once it is true
};

/// Throws std::runtime_error if the current stream of the device is being captured into a CUDA
/// graph.
void checkNotCapturing(c10::Device device);

/// Row of elements in host memory for one call, pinned if possible. The elements are copied in part
/// by part, and the sums are copied out while later parts are still on their way in.
///
///   1. The constructor, in the thread of the call, records the event `produced_`: the values are
///      there when the current stream has come so far. It waits for nothing.
///   2. copyIn() waits until the values are there, and queues the copies of all parts to the row,
///      each with an event in `arrivals_`.
///   3. waitForArrival() waits until one part is in the row, which the delegate then sums.
///   4. copyOut() queues the copy of a summed part to the targets, and records `done_` anew.
///   5. blockCurrentStream() makes the program's stream wait for `done_`. After a failure,
///      waitUntilIdle() waits for `done_`, for a second at most: the program does not wait for the
///      copies of a failed work.
///
/// A pool thread calls the members of steps 2 to 4, and waitUntilIdle(), one after the other, while
/// stream() is the current stream. A thread of the program calls blockCurrentStream() after the
/// work has completed.
/// Nothing needs a mutex: the pool's queue and the completion of the work order the steps.
class Staging {
 public:
  /// The sources and targets are on one device, at the same positions of the row.
  Staging(const RowLayout<at::Tensor>& sources, RowLayout<at::Tensor> targets, WaitOptions wait);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Stream of the copies to the targets.
  const c10::Stream& stream() const { return streams_.toDevice; }

  /// Returns the row, into which the values are being copied. Throws std::runtime_error if the
  /// device does not have the values in time, or after an abort.
  const at::Tensor& copyIn();

  /// Waits until the elements before `last`, the end of a part, are in the row. Throws as copyIn().
  void waitForArrival(std::int64_t last);

  /// Queues the copy of the elements from `first` to before `last` to the targets. The parts come
  /// in the order of the elements.
  void copyOut(std::int64_t first, std::int64_t last);

  /// Waits until the queued copies to the targets are done, for a second at most.
  void waitUntilIdle() const noexcept;

  /// Makes the current stream wait for the copies to the targets. Throws as checkNotCapturing().
  void blockCurrentStream() const;

 private:
  at::Tensor makeRow() const;
  c10::Stream currentStream() const;

  /// Keeps the tensor's memory from being used again before the stream has come so far.
  void recordStream(const at::Tensor& tensor, const c10::Stream& stream) const;

  void wait(const c10::Event& event) const;

  /// False if the event is not reached within `timeout`, or when `aborted` becomes true. Polls,
  /// less and less often: a wait by the device itself could not be ended.
  static bool poll(const c10::Event& event, std::chrono::milliseconds timeout,
                   const std::atomic<bool>* aborted);

  const RowLayout<at::Tensor> sources_;
  const RowLayout<at::Tensor> targets_;
  const c10::Device device_;
  const WaitOptions wait_;
  const CopyStreams streams_;
  c10::Event produced_;
  c10::Event done_;
  const bool mayOverlap_;  // targets may lie among the sources, but are not the sources
  at::Tensor row_;
  std::int64_t partNumel_ = 0;
  std::vector<c10::Event> arrivals_;  // of each part
};

}  // namespace switchml_delegate
