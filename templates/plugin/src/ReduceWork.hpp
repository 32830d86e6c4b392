/// The work of a delegated allreduce or reduce-scatter.
#pragma once

#include <ATen/ATen.h>
#include <ATen/ThreadLocalState.h>

#include <memory>
#include <vector>

#include "PoolWork.hpp"
#include "Staging.hpp"
#include "SwitchMLAllreduce.hpp"
#include "WorkPool.hpp"

namespace switchml_delegate {

/// Sum of tensors over all ranks, in place or, of a reduce-scatter, one part of it in the targets.
///
/// A thread of the program makes it; a pool thread calls run(), once; then threads of the program
/// call result() and synchronize(). The pool's queue and c10d::Work order these steps, so there is
/// no mutex.
class ReduceWork : public PoolWork {
 public:
  using Tensors = std::vector<at::Tensor>;

  /// Each target is the part of `rank` of its source. Of an allreduce it is the whole source, the
  /// part of rank 0.
  ReduceWork(c10d::OpType type, const char* title, const Tensors& sources, Tensors targets,
             int rank, std::unique_ptr<Allreduce> allreduce, CallInfo call, WaitOptions wait);

  /// Sums, releases the slot and completes the work. The callbacks run without the slot, because
  /// they may take any time.
  void run(WorkPool::Slot& slot) noexcept;

  Tensors result() override;
  void synchronize() override;

 private:
  const RowLayout<at::Tensor> sources_;
  const RowLayout<at::Tensor> results_;
  const Tensors targets_;
  std::unique_ptr<Allreduce> allreduce_;
  const at::ThreadLocalState state_;
  const std::unique_ptr<Staging> staging_;  // null for tensors in host memory
};

}  // namespace switchml_delegate
