/// An allreduce of the delegating group, in the parts and the number of bits that its ranks have
/// agreed on.
#pragma once

#include <cstdint>

#include "sum/pending_jobs.hpp"

namespace switchml_delegate {

/// Result of a call.
struct Reduced {
  std::uint64_t bytes;  // that this rank has sent to be summed
  bool redone;          // at least one job was summed over Gloo
};

/// Sums over all ranks in the caller's thread; its jobs have the numbers from `sequence` on. Throws
/// as Interface::reduce() does.
Reduced sumOverRanks(Runtime& runtime, const Delegation& group, std::uint64_t sequence,
                     const Request& request, CallLimits limits, const PartCallbacks& callbacks);

}  // namespace switchml_delegate
