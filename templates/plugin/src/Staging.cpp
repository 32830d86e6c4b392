#include "Staging.hpp"

#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "Capture.hpp"
#include "CurrentDevice.hpp"

namespace switchml_delegate {

void checkNotCapturing(c10::Device device) {
  const c10::DeviceGuard guard(device);
  if (isCapturing(c10::impl::VirtualGuardImpl(device.type()).getStream(device))) {
    throw std::runtime_error(
        "a CUDA graph cannot capture a sum by SwitchML, since the host takes part in it; ask for "
        "it, and wait for it, outside of the capture");
  }
}

Staging::Staging(const RowLayout<at::Tensor>& sources, RowLayout<at::Tensor> targets,
                 WaitOptions wait)
    : sources_(sources),
      targets_(std::move(targets)),
      device_(sources.first().device()),
      wait_(std::move(wait)),
      streams_(CopyStreams::of(device_)),
      produced_(device_.type()),
      done_(device_.type()),
      mayOverlap_(!sources.isSameAs(targets_)) {
  const c10::DeviceGuard guard(device_);
  produced_.record(currentStream());
  const auto numel = sources_.numel();
  sources_.each(0, numel, [this](const at::Tensor& tensor, std::int64_t /*begin*/) {
    recordStream(tensor, streams_.toHost);
  });
  targets_.each(0, numel, [this](const at::Tensor& tensor, std::int64_t /*begin*/) {
    recordStream(tensor, streams_.toDevice);
  });
}

Staging::~Staging() {
  tryOnDevice(device_, [this] {
    arrivals_.clear();
    row_.reset();
    produced_ = c10::Event(device_.type());
    done_ = c10::Event(device_.type());
  });
}

const at::Tensor& Staging::copyIn() {
  row_ = makeRow();
  partNumel_ = static_cast<std::int64_t>(
      std::min<std::uint64_t>(delegate()->partNumel(), static_cast<std::uint64_t>(row_.numel())));
  // The host waits, not the stream of the copies, which would hold up those of other calls. Copies
  // to pageable memory would hold up the host.
  wait(produced_);
  const c10::StreamGuard guard(streams_.toHost);
  for (std::int64_t first = 0; first < row_.numel(); first += partNumel_) {
    const auto last = std::min(first + partNumel_, row_.numel());
    sources_.each(first, last, [this](const at::Tensor& part, std::int64_t begin) {
      viewOf(row_, begin, part).copy_(part, /*non_blocking=*/true);
    });
    arrivals_.emplace_back(device_.type());
    arrivals_.back().record(streams_.toHost);
  }
  return row_;
}

void Staging::waitForArrival(std::int64_t last) {
  const auto part = (last - 1) / partNumel_;
  wait(arrivals_[static_cast<std::size_t>(part)]);
}

void Staging::copyOut(std::int64_t first, std::int64_t last) {
  if (mayOverlap_) {
    arrivals_.back().block(streams_.toDevice);
  }
  targets_.each(first, last, [this](at::Tensor part, std::int64_t begin) {
    part.copy_(viewOf(row_, begin, part), /*non_blocking=*/true);
  });
  done_.record(streams_.toDevice);
}

void Staging::waitUntilIdle() const noexcept {
  try {
    poll(done_, std::chrono::seconds(1), nullptr);
  } catch (const std::exception&) {
    // The failure before this one is the one that the work reports.
  }
}

void Staging::blockCurrentStream() const {
  const c10::DeviceGuard guard(device_);
  checkNotCapturing(device_);
  done_.block(currentStream());
}

/// Falls back to pageable memory if no more can be pinned: its copies are slower, but a rank that
/// does not sum would end SwitchML for all ranks.
at::Tensor Staging::makeRow() const {
  const auto options = sources_.first().options().device(at::kCPU);
  try {
    return at::empty({sources_.numel()}, options.pinned_memory(true));
  } catch (const std::exception&) {
    return at::empty({sources_.numel()}, options);
  }
}

c10::Stream Staging::currentStream() const {
  return c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
}

void Staging::recordStream(const at::Tensor& tensor, const c10::Stream& stream) const {
  c10::impl::VirtualGuardImpl(device_.type())
      .recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
}

void Staging::wait(const c10::Event& event) const {
  if (!poll(event, wait_.timeout, wait_.aborted.get())) {
    throw std::runtime_error(kAllreduceFailed +
                             (*wait_.aborted ? std::string(kGroupAborted)
                                             : "the device did not have the values within " +
                                                   std::to_string(wait_.timeout.count()) + " ms"));
  }
}

bool Staging::poll(const c10::Event& event, std::chrono::milliseconds timeout,
                   const std::atomic<bool>* aborted) {
  using std::chrono::steady_clock;
  constexpr steady_clock::duration kLongestPause = std::chrono::milliseconds(1);
  const auto begin = steady_clock::now();
  while (!event.query()) {
    const auto waited = steady_clock::now() - begin;
    if ((aborted != nullptr && aborted->load()) ||
        std::chrono::duration_cast<std::chrono::milliseconds>(waited) >= timeout) {
      return false;
    }
    std::this_thread::sleep_for(std::min(waited / 8, kLongestPause));
  }
  return true;
}

}  // namespace switchml_delegate
