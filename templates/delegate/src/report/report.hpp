/// What is seen from outside: the report of this process, and the file of its metrics.
///
/// They are made of snapshots, so they may be asked for at any moment.
#pragma once

#include "join/outcome.hpp"
#include "recover/counters.hpp"
#include "report/metrics.hpp"
#include "sum/runtime.hpp"

namespace switchml_delegate {

enum Fallback : std::size_t { kGroup, kOp, kDtype, kTensors, kNumel, kFallbacks };
constexpr std::array<const char*, kFallbacks> kFallbackNames{"group", "op", "dtype", "tensors",
                                                             "numel"};

/// What a process has counted and agreed on. A forked child goes on with it, so nothing of it has a
/// lock.
struct Statistics {
  AtomicSnapshot<Outcome> group;
  AtomicSnapshot<std::string> filled;
  AtomicSnapshot<metrics::Labels> labels;
  std::array<std::atomic<std::uint64_t>, kFallbacks> fallbacks{};
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> otherGroupBytes{0};  // that the delegating group's settings allow
  metrics::Times times;                           // of allreduces that SwitchML has summed
  FailoverCounters failover;
};

class Report {
 public:
  /// `atExit` is called when the process exits, once there are metrics.
  Report(const Runtime& runtime, const Statistics& statistics, ExitHook atExit)
      : runtime_(runtime), statistics_(statistics), atExit_(atExit) {}

  /// Called when a group has been made. A wrong value of the environment has been reported, unless
  /// the rank could not delegate anyway.
  void start(int rank);

  /// Has the metrics written soon.
  void wake() noexcept;

  /// Writes the metrics for the last time.
  void end();

  /// A JSON object.
  std::string json() const;

 private:
  /// The counters of this process, for a file that monitoring reads.
  std::string metricsPage(bool last) const;

  const Runtime& runtime_;
  const Statistics& statistics_;
  const ExitHook atExit_;
  std::atomic<bool> started_{false};
  std::mutex mutex_;
  std::unique_ptr<metrics::Writer> writer_;
};

}  // namespace switchml_delegate
