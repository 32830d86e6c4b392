/// What is visible from outside: the report of this process, and the file of its metrics.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/mutex.hpp"
#include "base/shutdown.hpp"
#include "report/metrics_file.hpp"
#include "report/statistics.hpp"

namespace switchml_delegate {

class Runtime;

/// Any thread may call it at any time, because it reads snapshots and counters.
class Report {
 public:
  /// `shutdown` ends the metrics when the process exits.
  Report(const Runtime& runtime, const Statistics& statistics, Shutdown& shutdown);

  /// Starts the metrics, if the environment names a directory for them. Called when a group has
  /// been made. Does not report a wrong value of the environment: unless the rank could not
  /// delegate anyway, joining has.
  void start(int rank) EXCLUDES(mutex_);

  /// Wakes the writer thread, which writes the metrics.
  void wake() noexcept EXCLUDES(mutex_);

  /// Writes the metrics for the last time, within the limit. Called by Shutdown.
  void end(std::chrono::milliseconds limit) noexcept EXCLUDES(mutex_);

  /// A JSON object.
  std::string json() const;

 private:
  std::string metricsPage(bool last) const;

  const Runtime& runtime_;
  const Statistics& statistics_;
  Shutdown& shutdown_;
  std::atomic<bool> started_{false};
  Mutex mutex_;
  std::unique_ptr<MetricsWriter> writer_ GUARDED_BY(mutex_);
};

}  // namespace switchml_delegate
