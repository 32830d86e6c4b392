/// What is seen from outside: the report of this process, and the file of its metrics.
///
/// They are made of snapshots, so they may be asked for at any moment.
#pragma once

#include "report/SwitchMLMetrics.hpp"

namespace switchml_torch {

class Report {
 public:
  /// Called when a group has been made. A wrong value of the environment has been reported, unless
  /// the rank could not delegate anyway.
  void start(int rank);

  /// Has the metrics written soon.
  void wake() noexcept;

  /// Writes the metrics for the last time.
  void end();

  /// A JSON object.
  static std::string json();

 private:
  std::mutex mutex_;
  std::unique_ptr<metrics::Writer> writer_;
};

}  // namespace switchml_torch
