#include "PoolWork.hpp"

#include <c10/util/ScopeExit.h>

#include <utility>

#include "CurrentDevice.hpp"

namespace switchml_delegate {

PoolWork::PoolWork(c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
                   std::vector<c10::Device> devices, CallInfo call)
    : Work(-1, type, title, inputs),
      call_(std::move(call)),
      future_(c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()),
                                          std::move(devices))) {}

/// The future has events, and some releases of torch destroy them on the wrong device.
PoolWork::~PoolWork() {
  if (!future_->devices().empty()) {
    tryOnDevice(future_->devices()[0], [this] { future_.reset(); });
  }
}

bool PoolWork::wait(std::chrono::milliseconds timeout) {
  ++*call_.waiters;
  const auto waited = c10::make_scope_exit([this] { --*call_.waiters; });
  return Work::wait(timeout);
}

void PoolWork::complete(std::exception_ptr failure,
                        const std::vector<at::Tensor>& tensors) noexcept {
  try {
    if (!failure) {
      call_.record();
    }
  } catch (const std::exception&) {  // the result is right, with or without its record
  }
  try {
    if (failure) {
      future_->setError(failure);
    } else {
      future_->markCompleted(tensors);
    }
  } catch (...) {
    failure = failure ? failure : std::current_exception();
  }
  finish(failure);
}

}  // namespace switchml_delegate
