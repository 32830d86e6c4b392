/// What a process has counted, and what its groups have agreed on.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/atomic_snapshot.hpp"
#include "join/outcome.hpp"
#include "recover/counters.hpp"
#include "report/histogram.hpp"
#include "report/metrics_page.hpp"

namespace switchml_delegate {

/// Condition that a call does not meet, so that it falls back to Gloo. The report names them in
/// this order.
enum Fallback : std::size_t { kGroup, kOp, kDtype, kTensors, kNumel, kFallbacks };

/// Any thread may read and change it. A forked child goes on with it, so it has no lock.
struct Statistics {
  AtomicSnapshot<Outcome> outcome;     // of the newest group
  AtomicSnapshot<std::string> filled;  // values that the rank has filled into its configuration
  AtomicSnapshot<Labels> labels;       // of all metrics
  std::array<std::atomic<std::uint64_t>, kFallbacks> fallbacks{};
  std::atomic<std::uint64_t> calls{0};  // allreduces that SwitchML has summed
  std::atomic<std::uint64_t> bytes{0};  // of these allreduces
  // Bytes of other groups' allreduces that the delegating group would have delegated.
  std::atomic<std::uint64_t> otherGroupBytes{0};
  DurationHistogram times;  // of allreduces that SwitchML has summed
  FailoverCounters failover;
};

}  // namespace switchml_delegate
