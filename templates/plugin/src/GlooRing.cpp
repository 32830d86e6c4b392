#include "GlooRing.hpp"

#include <ATen/ATen.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.hpp"

namespace switchml_delegate {

Ring ringOver(const c10::intrusive_ptr<Group>& gloo) {
  const auto mutex = std::make_shared<Mutex>();
  const auto start = [=](auto call, int distance, unsigned channel, const void* data,
                         std::size_t bytes) {
    std::vector<at::Tensor> tensors{
        at::from_blob(const_cast<void*>(data), {static_cast<std::int64_t>(bytes)}, at::kByte)};
    const auto size = gloo->getSize();
    const auto peer = (gloo->getRank() + size + distance) % size;
    MutexLock lock(*mutex);
    const auto work = ((*gloo).*call)(tensors, peer, static_cast<int>(channel));
    lock.unlock();
    return Transfer{
        [gloo = gloo, work](std::chrono::milliseconds limit) { return work->wait(limit); },
        [work] { work->abort(); }};
  };
  Ring ring;
  ring.send = [=](unsigned channel, const void* data, std::size_t bytes) {
    return start(&Group::send, 1, channel, data, bytes);
  };
  ring.receive = [=](unsigned channel, void* data, std::size_t bytes) {
    return start(&Group::recv, -1, channel, data, bytes);
  };
  return ring;
}

}  // namespace switchml_delegate
