/// Outcome of the steps in which the ranks of a new group agree.
#pragma once

#include <string>

#include "join/agreement.hpp"

namespace switchml_delegate {

struct Settings;

/// What a rank knows of a group once the ranks have decided: a value for the report and for lines.
/// The thread that makes the group writes it; readers have a copy that no thread changes.
struct Outcome {
  int size = 0;
  std::string decision;       // Gloo or SwitchML, with the reason or the terms
  std::string reason;         // for which they use Gloo; empty if they do not
  std::string terms;          // empty if they use Gloo
  Step step = Step::kAgreed;  // that was refused: the first on this rank, or on any
  std::string ownReason;      // for which this rank has refused; "objection" in the report
  bool late = false;          // it took all of its time, and others may be at fault
  std::string capabilities;   // the terms of this rank, if it was able

  void fallBack(const std::string& cause);

  /// `fake`: the sums are not real ones. `filled`: what this rank has filled into its
  /// configuration.
  void delegate(const Settings& settings, const std::string& agreed, bool fake,
                const std::string& filled);

  /// The line of the group; empty if there is none.
  std::string line() const { return size == 0 ? "" : groupLine(size, decision); }

  /// Error of ranks that may not use Gloo.
  std::string refusal() const { return refusalText(line()); }
};

}  // namespace switchml_delegate
