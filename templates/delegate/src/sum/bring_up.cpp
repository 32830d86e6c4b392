#include "sum/bring_up.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "base/result_within.hpp"
#include "base/text.hpp"
#include "host/cores.hpp"
#include "join/probe.hpp"
#include "join/reachable.hpp"
#include "sum/pending_jobs.hpp"
#include "sum/rows.hpp"

namespace switchml_delegate {

std::chrono::milliseconds limitOfStep(std::chrono::milliseconds limit,
                                      std::chrono::milliseconds timeout) {
  return std::min(limit, timeout / 4);
}

Capabilities BringUp::reachController() const {
  const auto& general = config.general_;
  const auto limit = limitOfStep(kController, timeout);
  const auto reason = resultWithin(
      limit + limit / 4,
      [host = general.controller_ip_str, port = general.controller_port,
       deadline = Library::Clock::now() + limit] { return unreachable(host, port, deadline); });
  return reason && reason->empty()
             ? Capabilities()
             : Capabilities::unable(
                   text("the controller at ", general.controller_ip_str, ":",
                        general.controller_port, " cannot be reached: ",
                        reason ? *reason : text("no answer within ", limit.count(), " ms")),
                   configPath);
}

bool BringUp::canSleepUntilPacketsAreGone() const {
  return !usesSwitch(config.general_) || limitOfStep(kIdle, timeout) == kIdle;
}

Capabilities BringUp::sleepUntilPacketsAreGone() const {
  if (!canSleepUntilPacketsAreGone()) {
    return Capabilities::unable(text("a timeout of ", timeout.count(),
                                     " ms is too short for the SwitchML context to start again"));
  }
  std::this_thread::sleep_for(usesSwitch(config.general_) ? kIdle : kIdle.zero());
  return {};
}

Capabilities BringUp::start(std::chrono::milliseconds limit) const {
  auto& library = runtime.library;
  const bool first = library.epoch() == 0;
  const auto longest = std::min(Library::startLimit(), limit);
  const auto begun = Library::Clock::now();
  // Before and after the start: exit() waits for the start, and destroys later what it has made.
  if (first) {
    Library::makeStatics();
    shutdown.contextStarts();
  }
  const auto reason = library.start(config, limit);
  if (first) {
    shutdown.contextStarts();
  }
  if (runtime.state.broken()) {
    library.stop(library.epoch());  // the group, or the process, has ended meanwhile
  }
  auto out = reason.empty() ? Capabilities() : Capabilities::unable(reason);
  // A library that has waited for other ranks may return shortly before its limit.
  out.late = Library::Clock::now() - begun >= longest / 2;
  if (out.able()) {
    rowPool().start(threadsFor(ownCores().size(), config.general_.num_worker_threads) - 1);
  }
  return out;
}

Capabilities BringUp::probe(std::uint64_t seed, Step& step) const {
  const auto& general = config.general_;
  const Probe pattern(general.rank, general.num_workers, general.packet_numel, seed);
  const auto slots = kSimulator ? 0 : outstanding(config);  // the simulator has none
  const auto numel = probeNumel(slots, general.num_worker_threads, messageNumel(config));
  const auto check = [&](auto zero, Element element) {
    const auto values = std::make_shared<std::vector<decltype(zero)>>(numel);
    pattern.fill(*values);
    sumAlone(runtime.library, {"probe", values->data(), numel, element, values}, probing);
    return pattern.mismatch(*values);
  };
  std::string reason;
  try {
    // Both in any case: if only this rank's sums are wrong, the others wait for its second job.
    reason = check(std::int32_t{}, Element::kInt32);
    const auto floats = check(float{}, Element::kFloat32);
    step = Step::kSums;
    reason = reason.empty() ? floats : reason;
  } catch (const std::exception& error) {
    reason = error.what();
  }
  return reason.empty() ? Capabilities()
                        : Capabilities::unable(reason, runtime.library.packets().summary());
}

}  // namespace switchml_delegate
