/// The simulated device as torch's CUDA, in a program that has no other: streams and events, memory
/// on the device, pinned memory, copies.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "device.hpp"

#ifdef __clang__  // what is virtual differs from torch to torch
#pragma clang diagnostic ignored "-Winconsistent-missing-override"
#pragma clang diagnostic ignored "-Woverloaded-virtual"
#endif

namespace registration {

constexpr c10::DeviceIndex kDevices = 2;
constexpr c10::StreamId kPooled = 32;  // as many as CUDA's pool of streams has

inline c10::Stream streamOf(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kCUDA, device), id);
}

/// Current device of a thread.
struct Current {
  c10::DeviceIndex device = 0;   // CUDA's
  c10::DeviceIndex wanted = -1;  // torch's, where that is not CUDA's yet, as it has no context
  std::array<c10::StreamId, kDevices> streams{};
};

inline Current& current() {
  thread_local Current instance;
  return instance;
}

/// A call of CUDA on its current device, which needs a context.
inline void call() { SimulatedDevice::instance().needContext(current().device); }

/// As c10/cuda/CUDAFunctions.h has them.
inline c10::DeviceIndex getDevice() {
  return current().wanted >= 0 ? current().wanted : current().device;
}

inline void setDevice(c10::DeviceIndex device) {
  current().wanted = -1;
  if (current().device != device) {
    current().device = device;
    call();
  }
}

inline void maybeSetDevice(c10::DeviceIndex device) {
  if (SimulatedDevice::instance().contexts().count(device) > 0) {
    setDevice(device);
  } else {
    current().wanted = device;
  }
}

/// How torch works with events: it goes back to any device.
class On {
 public:
  explicit On(c10::DeviceIndex device) : before_(registration::getDevice()) {
    registration::setDevice(device);
    call();
  }
  ~On() { registration::setDevice(before_); }
  On(const On&) = delete;
  On& operator=(const On&) = delete;

 private:
  const c10::DeviceIndex before_;
};

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::kCUDA; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const auto before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {c10::kCUDA, registration::getDevice()}; }
  void setDevice(c10::Device device) const override { registration::setDevice(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    maybeSetDevice(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  c10::Stream getStream(c10::Device device) const noexcept override {
    const auto index = indexOf(device);
    return streamOf(index, current().streams[static_cast<std::size_t>(index)]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return streamOf(indexOf(device), 0);
  }
  /// Each priority has streams of its own.
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high = false) const override {
    const auto index = indexOf(device);
    auto& taken = taken_[high ? 1 : 0][static_cast<std::size_t>(index)];
    return streamOf(index, 1 + (high ? kPooled : 0) + taken++ % kPooled);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    const auto before = getStream(stream.device());
    current().streams[static_cast<std::size_t>(stream.device_index())] = stream.id();
    return before;
  }
  bool queryStream(const c10::Stream& stream) const override {
    auto& device = SimulatedDevice::instance();
    return device.reached(device.record(stream));
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    SimulatedDevice::instance().wait(stream);
  }
  /// Not every torch asks this.
  bool isStreamCapturing(const c10::Stream& stream) const {
    return SimulatedDevice::instance().capturing(stream);
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex /*device*/,
              c10::EventFlag /*flag*/) const override {
    const On on(stream.device_index());
    if (*event == nullptr) {
      *event = new Event;
    }
    *static_cast<Event*>(*event) = SimulatedDevice::instance().record(stream);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) {
      const On on(stream.device_index());
      SimulatedDevice::instance().block(*static_cast<Event*>(event), stream);
    }
  }
  bool queryEvent(void* event) const override {
    call();
    return event == nullptr || SimulatedDevice::instance().reached(*static_cast<Event*>(event));
  }
  void synchronizeEvent(void* event) const {
    call();
    const auto& mark = *static_cast<Event*>(event);
    while (!SimulatedDevice::instance().reached(mark)) {
    }
  }
  void destroyEvent(void* event, c10::DeviceIndex device) const noexcept override {
    const On on(device);
    delete static_cast<Event*>(event);
  }

  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override;

  void restart() const {
    for (auto& of : taken_) {
      for (auto& taken : of) {
        taken = 0;
      }
    }
  }

  /// Streams of high priority that were taken from the pool of a device.
  c10::StreamId taken(c10::DeviceIndex device) const {
    return taken_[1][static_cast<std::size_t>(device)];
  }

 private:
  using Event = std::shared_ptr<SimulatedDevice::Mark>;

  static c10::DeviceIndex indexOf(c10::Device device) {
    return device.has_index() ? device.index() : registration::getDevice();
  }

  mutable std::array<std::array<std::atomic<c10::StreamId>, kDevices>, 2> taken_{};
};

inline const Guard& guard() {
  static const auto* const instance = new Guard;
  return *instance;
}

/// Torch records an event on each stream that has used pinned memory.
inline void freeBlock(void* block) {
  auto& device = SimulatedDevice::instance();
  auto* const own = static_cast<SimulatedDevice::Block*>(block);
  for (const auto index : device.usersOf(*own)) {
    const On on(static_cast<c10::DeviceIndex>(index));
  }
  device.free(own);
}

/// Torch pins memory by way of any device that has a context.
inline c10::DataPtr allocated(std::size_t size, c10::Device place, bool pinned) {
  if (!pinned) {
    SimulatedDevice::instance().needContext(place.index());
  } else if (SimulatedDevice::instance().contexts().empty()) {
    call();
  }
  const auto stream = pinned ? streamOf(0, 0) : guard().getStream(place);
  auto* const block = SimulatedDevice::instance().allocate(size, pinned, stream);
  return {block->memory.get(), block, &freeBlock, place};
}

inline void Guard::recordDataPtrOnStream(const c10::DataPtr& data,
                                         const c10::Stream& stream) const {
  if (data.get() != nullptr) {
    auto* const block = static_cast<SimulatedDevice::Block*>(data.get_context());
    SimulatedDevice::instance().use(block, stream, /*byCopy=*/false);
  }
}

struct PinnedAllocator : public c10::Allocator {
  c10::DataPtr allocate(std::size_t size) const { return allocated(size, c10::kCPU, true); }
  c10::DataPtr allocate(std::size_t size) { return allocated(size, c10::kCPU, true); }
  void copy_data(void* to, const void* from, std::size_t size) const {
    std::memcpy(to, from, size);
  }
};

/// Torch asks for it by this name.
struct CUDAHooks : public at::CUDAHooksInterface {
  explicit CUDAHooks(at::CUDAHooksArgs /*unused*/) {}
  void init() const {}
  bool hasCUDA() const override { return true; }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    static auto* const allocator = new PinnedAllocator;
    return allocator;
  }
};

/// A tensor's elements, whatever becomes of the tensor.
struct Elements {
  explicit Elements(const at::Tensor& tensor)
      : data(tensor.data_ptr()),
        sizes(tensor.sizes().vec()),
        strides(tensor.strides().vec()),
        type(tensor.scalar_type()) {}

  at::Tensor onHost() const { return at::from_blob(data, sizes, strides, type); }

  void* data;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  at::ScalarType type;
};

inline at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool nonBlocking) {
  auto& device = SimulatedDevice::instance();
  const auto stream = guard().getStream(to.is_cuda() ? to.device() : from.device());
  const auto& host = to.is_cpu() ? to : from;
  auto* const pinned = host.is_cpu() ? device.pinnedBlock(host.data_ptr()) : nullptr;
  Elements source(from);
  at::Tensor kept;
  if (from.is_cpu() && pinned == nullptr) {
    kept = from.clone();
    source = Elements(kept);
  }
  const std::string name = !to.is_cuda()    ? "copy to the host"
                           : from.is_cuda() ? "copy on the device"
                                            : "copy from the host";
  device.enqueue(stream, name,
                 [source, target = Elements(to), kept] { target.onHost().copy_(source.onHost()); });
  if (pinned != nullptr) {
    device.use(pinned, stream, /*byCopy=*/true);
  }
  if (!nonBlocking || (to.is_cpu() && pinned == nullptr)) {
    device.wait(stream);
  }
  return to;
}

/// The elements of a storage from `offset` on, each `stride` after the one before it.
inline at::Tensor elementsOf(const c10::Storage& storage, std::int64_t numel, std::int64_t stride,
                             std::int64_t offset) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA),
      caffe2::TypeMeta::Make<float>());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(at::IntArrayRef(numel),
                                                      at::IntArrayRef(stride));
  tensor.unsafeGetTensorImpl()->set_storage_offset(offset);
  return tensor;
}

inline at::Tensor empty(std::int64_t numel, c10::DeviceIndex index) {
  const auto bytes = static_cast<std::size_t>(numel) * sizeof(float);
  return elementsOf({c10::Storage::use_byte_size_t(), bytes,
                     allocated(bytes, c10::Device(c10::kCUDA, index), false),
                     /*allocator=*/nullptr, /*resizable=*/false},
                    numel, 1, 0);
}

inline at::Tensor slice(const at::Tensor& tensor, std::int64_t /*dimension*/,
                        c10::optional<std::int64_t> first, c10::optional<std::int64_t> last,
                        std::int64_t /*step*/) {
  return elementsOf(tensor.storage(), *last - *first, tensor.stride(0),
                    tensor.storage_offset() + *first * tensor.stride(0));
}

/// All tensors of the device are rows.
inline at::Tensor view(const at::Tensor& tensor, at::IntArrayRef /*sizes*/) {
  return elementsOf(tensor.storage(), tensor.numel(), tensor.stride(0), tensor.storage_offset());
}

const c10::impl::DeviceGuardImplRegistrar kGuard(c10::kCUDA, &guard());

}  // namespace registration

namespace at {
using registration::CUDAHooks;
REGISTER_CUDA_HOOKS(CUDAHooks);
}  // namespace at

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("copy_", &registration::copy);
  library.impl("slice.Tensor", &registration::slice);
  library.impl("view", &registration::view);
}
