/// Outcome of the steps by which the ranks of a new group agree.
#pragma once

#include "base/say.hpp"
#include "join/agreement.hpp"
#include "join/settings.hpp"

namespace switchml_delegate {

struct Outcome {
  int size = 0;
  std::string decision;       // where allreduces go, and why
  std::string reason;         // for which they stay with Gloo; empty where they do not
  std::string terms;          // empty where they stay with Gloo
  Step step = Step::kAgreed;  // that was refused: the first on this rank, or on any
  std::string objection;      // of this rank itself
  bool late = false;          // it took all of its time, and others may be at fault
  std::string capabilities;   // the terms of this rank, where it was able

  void stayWithGloo(const std::string& why) {
    decision = text(kStaysWithGloo, ": ", why);
    reason = why;
  }

  /// `filled`: what this rank has filled into its configuration.
  void delegate(const Settings& settings, const std::string& agreed, bool fake,
                const std::string& filled) {
    const auto bits = settings.quantization.bits;
    terms = agreed;
    decision = text(fake ? "WARNING: NOT REAL SUMS: " : "", "allreduce(", settings.ops.names(", "),
                    ") of ", settings.dtypes.names(", "), " goes to SwitchML",
                    bits == Quantization::kWhole ? "" : text(" in ", bits, " bits"), " (", terms,
                    settings.failsOver ? text("; SWITCHML_TIMEOUT_MS=", settings.timeoutMs) : "",
                    filled.empty() ? "" : "; filled in: ", filled, ")");
  }

  /// Members of a report: where allreduces go, and why; the step that was refused, and those
  /// before.
  std::string json() const {
    const auto steps = size > 0 ? static_cast<std::size_t>(step) : 0;
    const auto textOf = [](const char* name) { return inQuotes(name); };
    return text("\"group\": ", inQuotes(line()), ", \"world_size\": ", size,
                ", \"decision\": ", inQuotes(decision), ", \"reason\": ", inQuotes(reason),
                ", \"step\": ", inQuotes(nameOf(step)), ", \"passed\": [",
                joined(kStepNames, ", ", textOf, steps), "]");
  }

  std::string line() const {
    return size == 0
               ? ""
               : text("process group of ", size, size == 1 ? " rank: " : " ranks: ", decision);
  }

  /// Error of ranks that may not take Gloo.
  std::string refusal() const { return "SWITCHML_REQUIRE is set, but in this " + line(); }
};

inline void warnRank(int rank, const std::string& what) {
  say(text("warning: rank ", rank, ": ", what));
}

}  // namespace switchml_delegate
