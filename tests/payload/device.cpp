// The simulated device of tests/cpp/staging in an interpreter with torch, as its CUDA: what is
// queued on a stream runs in a thread of the device, in a random order.

#include <chrono>
#include <thread>

#include "registration.hpp"

namespace {

const c10::Stream kProducer = registration::streamOf(0, 0);

/// Lets the device work until the process ends.
const bool kRuns = [] {
  static auto* const order = new RandomOrder(0);
  auto& device = SimulatedDevice::instance();
  device.reset(*order);
  device.open(true);
  std::thread([&device] {
    while (true) {
      device.elapse();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }).detach();
  return true;
}();

}  // namespace

TORCH_LIBRARY(simulated, library) {
  library.def("empty(int numel) -> Tensor",
              [](std::int64_t numel) { return registration::empty(numel, 0); });
  // The stream on which tensors get their values does nothing from here on.
  library.def("hold() -> ()", [] { SimulatedDevice::instance().hold(kProducer); });
  library.def("let_go() -> ()", [] { SimulatedDevice::instance().letGo(kProducer); });
}
