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
  std::string reason;         // why the group falls back to Gloo; empty if it delegates
  std::string terms;          // on which the ranks have agreed; empty if the group falls back
  Step step = Step::kAgreed;  // first step that a rank refused; kAgreed if none did
  std::string ownReason;      // why this rank itself refused `step`; key `objection` of the report
  bool late = false;          // see Capabilities::late
  std::string capabilities;   // terms of this rank; empty if it could not delegate

  void fallBack(const std::string& cause);

  /// `fake`: the sums are not real ones. `filled`: what this rank has filled into its
  /// configuration.
  void delegate(const Settings& settings, const std::string& agreed, bool fake,
                const std::string& filled);

  /// The line of the group; empty if there is none.
  std::string line() const { return size == 0 ? "" : groupLine(size, decision); }

  /// Error of a rank if a rank has SWITCHML_REQUIRE set, and the group falls back to Gloo.
  std::string requirementError() const { return refusalText(line()); }
};

}  // namespace switchml_delegate
