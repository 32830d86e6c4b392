#include "join/outcome.hpp"

#include "base/text.hpp"
#include "join/settings.hpp"

namespace switchml_delegate {

void Outcome::fallBack(const std::string& why) {
  decision = glooDecision(why);
  reason = why;
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

std::string Outcome::json() const {
  const auto steps = size > 0 ? static_cast<std::size_t>(step) : 0;
  const auto textOf = [](const char* name) { return inQuotes(name); };
  return text("\"group\": ", inQuotes(line()), ", \"world_size\": ", size,
              ", \"decision\": ", inQuotes(decision), ", \"reason\": ", inQuotes(reason),
              ", \"step\": ", inQuotes(nameOf(step)), ", \"passed\": [",
              joined(kStepNames, ", ", textOf, steps), "]");
}

}  // namespace switchml_delegate
