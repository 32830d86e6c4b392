/// Steps by which the ranks of a new group agree, and the outcome of these steps.
///
/// All ranks take the same steps in the same order, and begin none before all know how the one
/// before has ended. So all of them delegate, or none.
#pragma once

#include <array>

#include "join/SwitchMLSettings.hpp"

namespace switchml_torch {

/// kController is a part of kCapabilities, and kSums the end of kProbe, on this rank alone.
enum class Step { kCapabilities, kController, kStop, kStart, kProbe, kSums, kConnect, kAgreed };

/// Names of the steps in keys of the Store, in reports, and for the doctor.
constexpr std::array<const char*, 8> kStepNames{"capabilities", "controller", "stop",    "start",
                                                "probe",        "sums",       "connect", ""};

constexpr const char* nameOf(Step step) noexcept {
  return kStepNames[static_cast<std::size_t>(step)];
}

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
    decision = "allreduce stays with Gloo: " + why;
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

  std::string line() const {
    return size == 0
               ? ""
               : text("process group of ", size, size == 1 ? " rank: " : " ranks: ", decision);
  }

  /// Error of ranks that may not take Gloo.
  std::string refusal() const { return "SWITCHML_REQUIRE is set, but in this " + line(); }
};

inline void warnRank(int rank, const std::string& why) {
  say(text("warning: rank ", rank, ": ", why, "; allreduce stays with Gloo"));
}

}  // namespace switchml_torch
