/// Steps that bring the context into use, for a new group and for one that resumes after a failure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/shutdown.hpp"
#include "join/agreement.hpp"
#include "join/config.hpp"
#include "sum/runtime.hpp"

namespace switchml_delegate {

/// Returns `limit`, at most a quarter of the group's timeout: a rank takes up to three such steps
/// between two answers, and the others wait one timeout for each answer.
std::chrono::milliseconds limitOfStep(std::chrono::milliseconds limit,
                                      std::chrono::milliseconds timeout);

/// What a rank does with its context between two answers to the others, in this order. Each step
/// returns whether this rank is able to go on. One thread at a time takes them: the one that makes
/// the group, or with failover the one whose call resumes it.
struct BringUp {
  static constexpr std::chrono::milliseconds kController = std::chrono::seconds(3);
  static constexpr std::chrono::milliseconds kIdle = std::chrono::seconds(1);

  Runtime& runtime;
  Shutdown& shutdown;
  switchml::Config config;
  std::string configPath;
  std::chrono::milliseconds timeout;  // of the group
  std::chrono::milliseconds probing;  // of each sum of the probe; the other ranks wait for both

  /// Connects to the controller's port: the client library ends the process, or waits for ever, if
  /// it cannot.
  Capabilities reachController() const;

  /// False if the other ranks do not wait as long as sleepUntilPacketsAreGone() takes.
  bool canSleepUntilPacketsAreGone() const;

  /// Sleeps for kIdle, so that packets of the stopped context have left the network. Nothing can
  /// observe them.
  Capabilities sleepUntilPacketsAreGone() const;

  /// Starts the context. It is stopped again if the group or the process ends meanwhile: exit()
  /// waits for that.
  Capabilities start(std::chrono::milliseconds limit) const;

  /// Sums a known pattern of each type with the other ranks: a context that has started may still
  /// lose packets, or sum wrongly. Sets `step` to kSums once there are sums.
  Capabilities probe(std::uint64_t seed, Step& step) const;
};

}  // namespace switchml_delegate
