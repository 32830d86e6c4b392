#include "recover/resume.hpp"

#include <algorithm>
#include <random>

namespace switchml_delegate {
namespace {

StepAnswer answerTo(const ResumeStep& step, std::uint64_t seed) {
  ResumeRefusal refusal;
  try {
    refusal = step(seed);
  } catch (const std::exception& error) {
    refusal.reason = text("SwitchML cannot be started: ", error.what());
  }
  StepAnswer answer;
  answer.seed = seed;
  answer.permanent = refusal.permanent ? 1 : 0;
  refusal.reason.copy(answer.reason, sizeof answer.reason - 1);
  return answer;
}

}  // namespace

std::optional<RefusedResume> takeResumeSteps(RingCollectives& ring,
                                             const std::vector<ResumeStep>& steps,
                                             std::chrono::milliseconds limit) {
  std::random_device device;
  std::uint64_t seed = std::uint64_t{device()} << 32U | (device() & UINT32_MAX);
  for (const auto& step : steps) {
    const auto own = answerTo(step, seed);
    const auto all = ring.gather(own, limit);
    seed = all[0].seed;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank].reason[0] != '\0') {
        const bool permanent =
            std::any_of(all.begin(), all.end(), [](const auto& one) { return one.permanent; });
        return RefusedResume{rank, receivedText(all[rank].reason), permanent};
      }
    }
  }
  return std::nullopt;
}

}  // namespace switchml_delegate
