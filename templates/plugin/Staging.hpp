/// Host memory for the tensors of an accelerator, since SwitchML knows no other.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "Capture.hpp"
#include "SwitchMLAllreduce.hpp"

namespace switchml_delegate {

/// Calls `function` with the device as the current one, where nothing may be thrown: a device that
/// has failed cannot be made current.
///
/// Whatever is done with an event is done so. Else torch makes the device of the event the current
/// one and goes back to the other, on which CUDA then makes a context: hundreds of megabytes for
/// each process. A guard goes back as well, but not to a device without a context.
template <typename Function>
void tryOn(c10::Device device, const Function& function) noexcept {
  try {
    const c10::DeviceGuard guard(device);
    function();
  } catch (const std::exception&) {
  }
}

/// The streams of all copies between a device and the host: torch has few, and would hand out the
/// same ones again. Nothing but copies is queued on them, of which each can run at once, so no call
/// waits for what another one is still to get.
struct CopyStreams {
  c10::Stream out;
  c10::Stream back;

  static CopyStreams of(c10::Device device) {
    static std::mutex mutex;
    static auto* const made = new std::map<c10::DeviceIndex, CopyStreams>;
    const std::lock_guard<std::mutex> lock(mutex);
    auto found = made->find(device.index());
    if (found == made->end()) {
      const c10::DeviceGuard guard(device);
      const c10::impl::VirtualGuardImpl impl(device.type());
      const auto taken = [&] {
        return impl.getStreamFromGlobalPool(device, /*isHighPriority=*/true);
      };
      found = made->emplace(device.index(), CopyStreams{taken(), taken()}).first;
    }
    return found->second;
  }
};

/// Patience of the host with a device.
struct Patience {
  std::chrono::milliseconds limit;                   // of each wait
  std::shared_ptr<const std::atomic<bool>> aborted;  // ends all of them
};

/// A row of elements in host memory, pinned where that can be had. Part by part the elements come
/// to the row, and go to the targets while others are still on their way.
class Staging {
 public:
  /// Called where the sum is asked for, and waits for nothing: what the current stream has queued
  /// until now is what makes the values. Sources and targets are of one device, in the same row.
  Staging(const RowLayout<at::Tensor>& sources, RowLayout<at::Tensor> targets, Patience patience)
      : sources_(sources),
        targets_(std::move(targets)),
        device_(sources.first().device()),
        patience_(std::move(patience)),
        streams_(CopyStreams::of(device_)),
        produced_(device_.type()),
        done_(device_.type()),
        scatters_(!sources.isSameAs(targets_)) {
    const c10::DeviceGuard guard(device_);
    produced_.record(currentStream());
    const auto numel = sources_.numel();
    sources_.each(0, numel, [this](const at::Tensor& tensor, std::int64_t /*begin*/) {
      use(tensor, streams_.out);
    });
    targets_.each(0, numel, [this](const at::Tensor& tensor, std::int64_t /*begin*/) {
      use(tensor, streams_.back);
    });
  }

  ~Staging() {
    tryOn(device_, [this] {
      arrivals_.clear();
      row_.reset();
      produced_ = c10::Event(device_.type());
      done_ = c10::Event(device_.type());
    });
  }

  /// Stream of the copies back. It is the current one wherever the members below are called.
  const c10::Stream& stream() const { return streams_.back; }

  /// The row, once the values are there and on their way to it. A copy that waited for them on its
  /// stream would keep those of other calls waiting, and one to pageable memory the host.
  const at::Tensor& fetch() {
    row_ = hostMemory();
    size_ = static_cast<std::int64_t>(
        std::min<std::uint64_t>(delegate()->partNumel(), static_cast<std::uint64_t>(row_.numel())));
    wait(produced_);
    const c10::StreamGuard guard(streams_.out);
    for (std::int64_t first = 0; first < row_.numel(); first += size_) {
      const auto last = std::min(first + size_, row_.numel());
      sources_.each(first, last, [this](const at::Tensor& part, std::int64_t begin) {
        viewOf(row_, begin, part).copy_(part, /*non_blocking=*/true);
      });
      arrivals_.emplace_back(device_.type());
      arrivals_.back().record(streams_.out);
    }
    return row_;
  }

  /// Returns when the elements before `last` are in the row.
  void arrive(std::int64_t last) {
    const auto part = (last - 1) / size_;
    wait(arrivals_[static_cast<std::size_t>(part)]);
  }

  /// Called in the order of the elements.
  void giveBack(std::int64_t first, std::int64_t last) {
    if (scatters_) {
      arrivals_.back().block(streams_.back);  // the targets may lie among the sources
    }
    targets_.each(first, last, [this](at::Tensor part, std::int64_t begin) {
      part.copy_(viewOf(row_, begin, part), /*non_blocking=*/true);
    });
    done_.record(streams_.back);
  }

  /// Returns when nothing more is copied back, or when that takes far longer than copies do.
  void settle() const noexcept {
    try {
      reached(done_, std::chrono::seconds(1), nullptr);
    } catch (const std::exception&) {  // what went wrong first is what is told
    }
  }

  /// Makes the current stream wait for the copies back.
  void block() const {
    const c10::DeviceGuard guard(device_);
    refuseCapture(device_);
    done_.block(currentStream());
  }

  /// Throws where the current stream of the device is being captured.
  static void refuseCapture(c10::Device device) {
    const c10::DeviceGuard guard(device);
    if (isCapturing(c10::impl::VirtualGuardImpl(device.type()).getStream(device))) {
      throw std::runtime_error(
          "a CUDA graph cannot capture a sum by SwitchML, since the host takes part in it; ask for "
          "it, and wait for it, outside of the capture");
    }
  }

 private:
  /// Pageable where no more can be pinned: its copies are slower, but a rank that sums nothing now
  /// would end SwitchML for all.
  at::Tensor hostMemory() const {
    const auto options = sources_.first().options().device(at::kCPU);
    try {
      return at::empty({sources_.numel()}, options.pinned_memory(true));
    } catch (const std::exception&) {
      return at::empty({sources_.numel()}, options);
    }
  }

  c10::Stream currentStream() const {
    return c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  }

  /// The tensor's memory is not used again before the stream has come so far.
  void use(const at::Tensor& tensor, const c10::Stream& stream) const {
    c10::impl::VirtualGuardImpl(device_.type())
        .recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
  }

  void wait(const c10::Event& event) const {
    if (!reached(event, patience_.limit, patience_.aborted.get())) {
      throw std::runtime_error(kAllreduceFailed +
                               (*patience_.aborted
                                    ? std::string(kGroupAborted)
                                    : "the device did not have the values within " +
                                          std::to_string(patience_.limit.count()) + " ms"));
    }
  }

  /// False at the limit, or when `aborted`. Asks for the event again and again, and ever less
  /// often: a wait of the device's own has no other end than the event.
  static bool reached(const c10::Event& event, std::chrono::milliseconds limit,
                      const std::atomic<bool>* aborted) {
    using std::chrono::steady_clock;
    constexpr steady_clock::duration kLongest = std::chrono::milliseconds(1);
    const auto begin = steady_clock::now();
    while (!event.query()) {
      const auto waited = steady_clock::now() - begin;
      if ((aborted != nullptr && aborted->load()) ||
          std::chrono::duration_cast<std::chrono::milliseconds>(waited) >= limit) {
        return false;
      }
      std::this_thread::sleep_for(std::min(waited / 8, kLongest));
    }
    return true;
  }

  const RowLayout<at::Tensor> sources_;
  const RowLayout<at::Tensor> targets_;
  const c10::Device device_;
  const Patience patience_;
  const CopyStreams streams_;
  c10::Event produced_;
  c10::Event done_;
  const bool scatters_;
  at::Tensor row_;
  std::int64_t size_ = 0;             // of a part, in elements
  std::vector<c10::Event> arrivals_;  // of each part
};

}  // namespace switchml_delegate
