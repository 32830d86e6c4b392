/// The one table of what a process tells about itself: the keys of its report and its metrics.
#pragma once

#include <string>

#include "base/delegation_state.hpp"
#include "report/metrics_page.hpp"
#include "report/statistics.hpp"
#include "sum/packets.hpp"

namespace switchml_delegate {

class Runtime;

/// State of the process that the fields of one report, or of one page of metrics, are read from.
/// The values of one source belong together, except for counters, which go on. The thread that
/// makes the report or the page uses it.
struct FieldSource {
  FieldSource(const Runtime& own, const Statistics& counted, bool exits);

  const Runtime& runtime;
  const Statistics& statistics;
  const bool last;  // the process exits
  const bool lost;  // the process was forked from one that had started SwitchML
  const bool delegating;
  const DelegationState::Value& state;
  const Outcome& outcome;  // of the newest group
  const Packets packets;
};

/// Returns the report: a JSON object of all fields that have a key.
std::string reportJson(const FieldSource& source);

/// Adds all fields that have a metric to a page.
void addMetrics(MetricsPage& page, const FieldSource& source);

}  // namespace switchml_delegate
