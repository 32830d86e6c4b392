/// Steps by which all ranks of a group return to their contexts after a failure.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "recover/ring.hpp"

namespace switchml_delegate {

/// Reason why a rank cannot use its context again; empty if it can.
struct ResumeRefusal {
  std::string reason;
  bool permanent = false;  // the rank would refuse each later attempt as well
};

/// A step of a resume attempt. `seed` is the same on all ranks, except in the first step, and
/// differs between attempts.
using ResumeStep = std::function<ResumeRefusal(std::uint64_t seed)>;

/// The first rank that refused a step, and its reason.
struct RefusedResume {
  std::size_t rank = 0;
  std::string reason;
  bool permanent = false;  // at least one rank would refuse each later attempt as well
};

/// Takes the steps together with all other ranks. A step begins when all ranks have completed the
/// previous one, and no step follows a refused one. Returns nothing if all ranks have completed all
/// steps. Throws std::runtime_error if a rank is gone. `limit` is for each message.
std::optional<RefusedResume> takeResumeSteps(RingCollectives& ring,
                                             const std::vector<ResumeStep>& steps,
                                             std::chrono::milliseconds limit);

}  // namespace switchml_delegate
