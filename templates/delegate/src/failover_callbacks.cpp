#include "failover_callbacks.hpp"

#include <algorithm>
#include <cstring>

#include "say.hpp"
#include "sum/rows.hpp"

namespace switchml_delegate {
namespace {

constexpr std::chrono::milliseconds kLongestRestart = std::chrono::seconds(45);

ResumeRefusal refusalOf(const Capabilities& found) { return ResumeRefusal{found.detail}; }

/// Waits until the context has stopped, connects to its controller, and sleeps until packets of the
/// stopped context have left the network.
ResumeRefusal prepare(const BringUp& bringUp) {
  auto& library = bringUp.runtime.library;
  static_cast<void>(
      library.stoppedWithin(limitOfStep(kStopAfterFailure, bringUp.timeout), library.epoch()));
  if (const auto reason = library.refusal(); !reason.empty()) {
    return ResumeRefusal{reason, !startsAgain(bringUp.config.general_)};
  }
  const auto reached = hasController(bringUp.config) ? bringUp.reachController() : Capabilities();
  const auto idle = reached.able() ? bringUp.sleepUntilPacketsAreGone() : reached;
  return ResumeRefusal{idle.detail, !bringUp.canSleepUntilPacketsAreGone()};
}

ResumeRefusal restart(const BringUp& bringUp) {
  return refusalOf(bringUp.start(std::min(bringUp.timeout / 2, kLongestRestart)));
}

ResumeRefusal probeAgain(const BringUp& bringUp, std::uint64_t seed) {
  auto step = Step::kProbe;
  return refusalOf(sumsAreFake(bringUp.config.general_) ? Capabilities()
                                                        : bringUp.probe(seed, step));
}

void copyInParallel(void* to, const void* from, std::size_t bytes) {
  constexpr auto kWord = sizeof(std::int32_t);
  inParts(bytes / kWord, 1, [=](std::uint64_t first, std::uint64_t last) noexcept {
    std::memcpy(static_cast<char*>(to) + first * kWord,
                static_cast<const char*>(from) + first * kWord, (last - first) * kWord);
  });
}

}  // namespace

Failover::Callbacks failoverCallbacks(const BringUp& bringUp) {
  auto& runtime = bringUp.runtime;
  Failover::Callbacks out;
  out.stop = [&runtime](const std::string& reason) { runtime.suspend(reason); };
  out.copy = copyInParallel;
  out.say = say;
  out.resumeSteps = {
      [bringUp](std::uint64_t /*seed*/) { return prepare(bringUp); },
      [bringUp](std::uint64_t /*seed*/) { return restart(bringUp); },
      [bringUp](std::uint64_t seed) { return probeAgain(bringUp, seed); },
  };
  out.resume = [&runtime] { runtime.state.resume(); };
  return out;
}

}  // namespace switchml_delegate
