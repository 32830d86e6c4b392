/// Text of a file of metrics.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "report/histogram.hpp"

namespace switchml_delegate {

using Labels = std::vector<std::pair<std::string, std::string>>;

/// Builds a page in Prometheus' text format. Each sample has the page's labels before its own.
/// Labels without a value are left out: Prometheus does not know them. The thread that makes the
/// page uses it.
class MetricsPage {
 public:
  explicit MetricsPage(Labels labels);

  /// Begins a metric; its samples follow.
  void begin(const std::string& name, const std::string& help, const std::string& type);

  void sample(const std::string& name, const Labels& more, std::uint64_t value);
  void sample(const std::string& name, const Labels& more, double value);

  /// Adds the samples of a histogram.
  void samples(const std::string& name, const DurationHistogram& times);

  std::string str() const { return out_.str(); }

 private:
  /// Writes the beginning of the line of a sample.
  void beginSample(const std::string& name, const Labels& more);

  Labels labels_;
  std::ostringstream out_;
};

}  // namespace switchml_delegate
