/// An allreduce of the delegating group, in the parts and the number of bits that its ranks have
/// agreed on.
#pragma once

#include <cstdint>

#include "sum/pending_jobs.hpp"

namespace switchml_delegate {

/// Sums over all ranks in the caller's thread; its jobs have the numbers from `sequence` on. Throws
/// as Interface::reduce() does. Returns the bytes that SwitchML has summed, or 0 if a job of the
/// call was summed over Gloo.
std::uint64_t sumOverRanks(Runtime& runtime, const Delegation& group, std::uint64_t sequence,
                           const Request& request, Limits limits, const PartCallbacks& callbacks);

}  // namespace switchml_delegate
