/// Records the delegated calls of a group in torch's flight recorder.
#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "Group.hpp"

namespace torch {
struct CapturedTraceback;
}

namespace switchml_delegate {

/// Records of one group. A torch whose recorder a library cannot use gets NoFlightRecords.cpp, in
/// which no member does anything.
///
///   1. trace() takes the stack of the call, before the call has its number: it waits for Python's
///      lock.
///   2. add() writes an entry, with the recorder's own next number, and returns a function.
///   3. The function marks the entry as completed, if the recorder still has it.
///
/// Gloo numbers its entries by a count of its own. So the delegated calls are a sequence of their
/// own, from 1 on, of a group with a name of its own: under the name of Gloo's group, torch's
/// analysis would take neighbours with the same number for one coalesced call.
///
/// Threads of the program call trace() and add(), pool threads the functions. The recorder's own
/// mutex guards the recorder and `status_`.
class FlightRecords {
 public:
  using Trace = std::shared_ptr<torch::CapturedTraceback>;
  using Complete = std::function<void()>;

  FlightRecords();

  /// Stack of the call; null if nothing is recorded.
  Trace trace() const;

  /// Records a delegated call. Call what it returns when the call has succeeded; the entry of a
  /// call that failed stays as it is, as torch has it.
  Complete add(const Group& group, Trace trace, const char* title,
               const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs,
               std::chrono::milliseconds timeout, std::uint64_t sequence);

 private:
  struct Status;
  std::shared_ptr<Status> status_;
};

}  // namespace switchml_delegate
