/// An allreduce that the group delegates, as jobs of the library.
///
/// The jobs of a call are submitted in the order of its numbers, and finished in that order. Memory
/// that was given to the library is the caller's again when the job has ended, or the context has
/// stopped.
#pragma once

#include "sum/runtime.hpp"

namespace switchml_delegate {

/// The sum of `data` over all ranks in place of it. `owner` keeps the memory for as long as the
/// library may write to it. `then` is called with the sum.
struct Sum {
  const char* what;
  void* data;
  std::uint64_t numel;
  Element element;
  std::shared_ptr<void> owner;
  std::function<void()> then{};
  bool overflowed = false;  // what the library has no numbers for was replaced

  std::string name() const {
    return text("the ", what, " of ", numel,
                element == Element::kFloat32 ? " float32 elements" : " int32 elements");
  }
};

/// A sum without a number, while nobody else has the library. Throws std::runtime_error where there
/// is none.
void sumAlone(Library& library, const Sum& sum, std::chrono::milliseconds limit);

/// Limits of a call: `each` for its jobs in the library, of which all are to be finished when it
/// has passed since the first was submitted and the jobs of other calls before it have ended. Those
/// have limits of their own, and what fails one of them gives up all. Where the group fails over, a
/// job that the library did not finish is summed over Gloo, with `patience`.
struct Limits {
  std::chrono::milliseconds each;
  std::chrono::milliseconds patience;
};

/// An allreduce of `group`, which delegates; its jobs have the numbers from `sequence` on. Returns
/// the bytes that SwitchML has summed; 0 where a job of it went over Gloo.
std::uint64_t sumOverRanks(Runtime& runtime, const Delegation& group, std::uint64_t sequence,
                           const Request& request, Limits limits, const Steps& steps);

}  // namespace switchml_delegate
