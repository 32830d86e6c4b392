/// Steps that bring the context into use, for a new group and for one that returns to it.
#pragma once

#include "base/result_within.hpp"
#include "join/config.hpp"
#include "join/outcome.hpp"
#include "join/probe.hpp"
#include "sum/overflow.hpp"
#include "sum/reduction.hpp"

namespace switchml_delegate {

/// Limit of something that a rank does between two answers to the others, who wait for each answer
/// as long as the group's timeout. It does three such things at most.
inline std::chrono::milliseconds between(std::chrono::milliseconds limit,
                                         std::chrono::milliseconds timeout) {
  return std::min(limit, timeout / 4);
}

struct BringUp {
  static constexpr std::chrono::milliseconds kController = std::chrono::seconds(3);
  static constexpr std::chrono::milliseconds kQuiet = std::chrono::seconds(1);

  Runtime& runtime;
  ExitHook atExit;  // is called when the process exits, once a context has started
  switchml::Config config;
  std::string place;                  // of the configuration
  std::chrono::milliseconds timeout;  // of the group
  std::chrono::milliseconds probing;  // of each sum of the probe; the others wait for both

  /// The library ends the process, or waits for ever, where its controller cannot be reached.
  Capabilities reachController() const {
    const auto& general = config.general_;
    const auto limit = between(kController, timeout);
    const auto why = resultWithin(
        limit + limit / 4,
        [host = general.controller_ip_str, port = general.controller_port,
         deadline = Library::Clock::now() + limit] { return unreachable(host, port, deadline); });
    return why && why->empty()
               ? Capabilities()
               : Capabilities::unable(
                     text("the controller at ", general.controller_ip_str, ":",
                          general.controller_port, " cannot be reached: ",
                          why ? *why : text("no answer within ", limit.count(), " ms")),
                     place);
  }

  /// False where the other ranks do not wait for as long as it takes.
  bool canAwaitQuiet() const {
    return !usesSwitch(config.general_) || between(kQuiet, timeout) == kQuiet;
  }

  /// Called when the context has stopped, before it is started anew. No packet of it is on its way
  /// to the switch any more when this returns.
  Capabilities awaitQuiet() const {
    if (!canAwaitQuiet()) {
      return Capabilities::unable(text("a timeout of ", timeout.count(),
                                       " ms is too short for the SwitchML context to start again"));
    }
    std::this_thread::sleep_for(usesSwitch(config.general_) ? kQuiet : kQuiet.zero());
    return {};
  }

  Capabilities start(std::chrono::milliseconds limit) const {
    auto& library = runtime.library;
    const bool first = library.epoch() == 0;
    const auto longest = std::min(Library::startLimit(), limit);
    const auto begun = Library::Clock::now();
    const auto why = library.start(config, limit);
    if (first && library.epoch() != 0) {
      // After the context was made, so it runs before the context is destroyed.
      on_exit(atExit, nullptr);
    }
    if (runtime.state.broken()) {
      library.stop(library.epoch());  // the group, or the process, has ended meanwhile
    }
    auto out = why.empty() ? Capabilities() : Capabilities::unable(why);
    // A library that has waited for others may give up shortly before its limit.
    out.late = Library::Clock::now() - begun >= longest / 2;
    if (out.able()) {
      helpers().start(threadsFor(ownCores().size(), config.general_.num_worker_threads) - 1);
    }
    return out;
  }

  /// Sums a known pattern of each type with the other ranks. That a context has started does not
  /// say that its packets arrive, nor that their sums are right. `step` becomes kSums once there
  /// are any.
  Capabilities probe(std::uint64_t seed, Step& step) const {
    const auto& general = config.general_;
    const Probe pattern(general.rank, general.num_workers, general.packet_numel, seed);
    const auto slots = kSimulator ? 0 : outstanding(config);  // it has none
    const auto numel = probeNumel(slots, general.num_worker_threads, messageNumel(config));
    const auto check = [&](auto zero, Element element) {
      const auto values = std::make_shared<std::vector<decltype(zero)>>(numel);
      pattern.fill(*values);
      sumAlone(runtime.library, {"probe", values->data(), numel, element, values}, probing);
      return pattern.objection(*values);
    };
    std::string why;
    try {
      // Both in any case: the sums of this rank alone may be wrong, and the others wait for it.
      why = check(std::int32_t{}, Element::kInt32);
      const auto floats = check(float{}, Element::kFloat32);
      step = Step::kSums;
      why = why.empty() ? floats : why;
    } catch (const std::exception& error) {
      why = error.what();
    }
    return why.empty() ? Capabilities()
                       : Capabilities::unable(why, runtime.library.packets().words());
  }
};

}  // namespace switchml_delegate
