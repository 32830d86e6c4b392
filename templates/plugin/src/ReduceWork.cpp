#include "ReduceWork.hpp"

#include <c10/core/StreamGuard.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>

namespace switchml_delegate {
namespace {

std::vector<c10::Device> devicesOf(const at::Tensor& tensor) {
  return tensor.is_cpu() ? std::vector<c10::Device>{} : std::vector<c10::Device>{tensor.device()};
}

/// Targets at their positions in the row of the sources.
RowLayout<at::Tensor> partsOf(std::int64_t rank, const ReduceWork::Tensors& sources,
                              const ReduceWork::Tensors& targets) {
  RowLayout<at::Tensor> parts;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    parts.add(targets[i], offset + rank * targets[i].numel());
    offset += sources[i].numel();
  }
  return parts;
}

}  // namespace

ReduceWork::ReduceWork(c10d::OpType type, const char* title, const Tensors& sources,
                       Tensors targets, int rank, std::unique_ptr<Allreduce> allreduce,
                       CallInfo call, WaitOptions wait)
    : PoolWork(type, title, sources, devicesOf(sources[0]), std::move(call)),
      sources_(sources),
      results_(partsOf(rank, sources, targets)),
      targets_(std::move(targets)),
      allreduce_(std::move(allreduce)),
      staging_(sources[0].is_cpu()
                   ? nullptr
                   : std::make_unique<Staging>(sources_, results_, std::move(wait))) {}

void ReduceWork::run(WorkPool::Slot& slot) noexcept {
  std::exception_ptr failure;
  c10::OptionalStreamGuard guard;  // until after complete(): the future records the current stream
  try {
    const at::ThreadLocalStateGuard state(state_);
    if (staging_ == nullptr) {
      allreduce_->reduce(sources_, results_);
    } else {
      guard.reset_stream(staging_->stream());
      const RowLayout<at::Tensor> row({staging_->copyIn()});
      allreduce_->reduce(
          row, row,
          {[this](std::int64_t /*first*/, std::int64_t last) { staging_->waitForArrival(last); },
           [this](std::int64_t first, std::int64_t last) { staging_->copyOut(first, last); }});
    }
  } catch (...) {
    failure = std::current_exception();
    if (staging_ != nullptr) {  // the program does not wait for the copies of a failed work
      staging_->waitUntilIdle();
    }
  }
  allreduce_.reset();
  slot.release();
  complete(failure, targets_);
}

ReduceWork::Tensors ReduceWork::result() {
  TORCH_CHECK(isCompleted(), "wait() for the work before you ask for its result()");
  return targets_;
}

void ReduceWork::synchronize() {
  if (staging_ != nullptr) {
    staging_->blockCurrentStream();
  }
  Work::synchronize();
}

}  // namespace switchml_delegate
