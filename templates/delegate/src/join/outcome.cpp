#include "join/outcome.hpp"

#include "base/text.hpp"
#include "join/settings.hpp"

namespace switchml_delegate {

void Outcome::fallBack(const std::string& cause) {
  decision = glooDecision(cause);
  reason = cause;
}

void Outcome::delegate(const Settings& settings, const std::string& agreed, bool fake,
                       const std::string& filled) {
  const auto bits = settings.quantization.bits;
  terms = agreed;
  decision = text(fake ? "WARNING: NOT REAL SUMS: " : "", "allreduce(", settings.ops.names(", "),
                  ") of ", settings.dtypes.names(", "), " goes to SwitchML",
                  bits == Quantization::kWhole ? "" : text(" in ", bits, " bits"), " (", terms,
                  settings.failsOver ? text("; SWITCHML_TIMEOUT_MS=", settings.timeoutMs) : "",
                  filled.empty() ? "" : "; filled in: ", filled, ")");
}

}  // namespace switchml_delegate
