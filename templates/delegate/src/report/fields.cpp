#include "report/fields.hpp"

#include <cstring>
#include <ctime>
#include <variant>
#include <vector>

#include "base/text.hpp"
#include "join/config.hpp"
#include "sum/runtime.hpp"

namespace switchml_delegate {
namespace {

using Texts = std::vector<std::string>;
using Counts = std::vector<std::uint64_t>;
using Terms = std::vector<std::pair<std::string, std::string>>;
using FieldValue = std::variant<std::monostate, bool, std::uint64_t, double, std::string, Texts,
                                Terms, Counts, const DurationHistogram*>;

/// kOptional is a counter that the client library may lack. kGauges and kCounters have a value for
/// each label, and kTerms has names and values.
enum class FieldKind {
  kText,
  kBoolean,
  kNumber,
  kTexts,
  kTerms,
  kCounter,
  kOptional,
  kSeconds,
  kCounters,
  kHistogram,
  kTimestamp,
  kGauges
};

struct ReportField {
  const char* key;     // in the report, OBJECT.KEY for a member of an object; empty: not there
  const char* metric;  // name of the metric; empty: there is none
  FieldKind kind;
  const char* labels;  // kCounters, kGauges: name of the metric's label, and its values
  const char* help;
  FieldValue (*value)(const FieldSource& from);
};

Texts passedSteps(const Outcome& outcome) {
  const auto count = outcome.size > 0 ? static_cast<std::size_t>(outcome.step) : 0;
  return {kStepNames.begin(), kStepNames.begin() + count};
}

Terms parsedTerms(const std::string& agreed) {
  const auto terms = readTerms(agreed);
  return {terms.begin(), terms.end()};
}

std::string failureOf(const FieldSource& from) {
  return from.state.kind == DelegationState::Kind::kBroken ? from.state.reason
         : from.lost                                       ? kForked
                                                           : "";
}

/// What a rank does now, in the order of the labels of switchml_state.
enum RankState : std::size_t {
  kRankDelegates,
  kRankUsesGloo,
  kRankFailsOver,
  kRankFailed,
  kRankEnded
};

RankState stateOf(const FieldSource& from) {
  using State = DelegationState::Kind;
  return from.state.kind == State::kBroken      ? kRankFailed
         : from.last                            ? kRankEnded
         : from.runtime.group() == nullptr      ? kRankUsesGloo
         : from.state.kind == State::kSuspended ? kRankFailsOver
                                                : kRankDelegates;
}

/// Returns 1 for the state of the rank, and 0 for the other states.
Counts statesOf(const FieldSource& from) {
  Counts out(kRankEnded + 1);
  out[stateOf(from)] = 1;
  return out;
}

/// patchgen/core/patch/fields.py reads this table too. There, a row is the string literals and
/// names of its first five columns.
const ReportField kFields[] = {
    {"problem", "", FieldKind::kText, "",
     "Reason why the delegate library could not be opened. Empty if it could.",
     [](const FieldSource&) -> FieldValue { return std::string(); }},
    {"flags", "", FieldKind::kText, "",
     "Flags of the client library for which the delegate was built.",
     [](const FieldSource&) -> FieldValue { return std::string(SWITCHML_DELEGATE_FLAGS); }},
    {"simulator", "", FieldKind::kBoolean, "", "Whether the client library is the simulator.",
     [](const FieldSource&) -> FieldValue { return kSimulator; }},
    {"sources", "", FieldKind::kText, "", "Digest of the delegate's sources.",
     [](const FieldSource&) -> FieldValue { return std::string(SWITCHML_DELEGATE_DIGEST); }},
    {"client", "", FieldKind::kText, "",
     "Mark of the client library, which tells how it was built. Empty if it has none.",
     [](const FieldSource&) -> FieldValue { return clientMark(); }},
    {"delegating", "", FieldKind::kBoolean, "", "Whether a process group delegates now.",
     [](const FieldSource& from) -> FieldValue { return from.delegating; }},
    {"failure", "", FieldKind::kText, "",
     "Reason why this process no longer uses SwitchML. Empty if it can.",
     [](const FieldSource& from) -> FieldValue { return failureOf(from); }},
    {"group", "", FieldKind::kText, "", "Line that rank 0 has printed about the newest group.",
     [](const FieldSource& from) -> FieldValue { return from.outcome.line(); }},
    {"world_size", "", FieldKind::kNumber, "", "Ranks of the newest group.",
     [](const FieldSource& from) -> FieldValue {
       return static_cast<std::uint64_t>(from.outcome.size);
     }},
    {"decision", "", FieldKind::kText, "", "Where the allreduces of the newest group go, and why.",
     [](const FieldSource& from) -> FieldValue { return from.outcome.decision; }},
    {"reason", "", FieldKind::kText, "",
     "Reason why the newest group does not delegate. Empty if it does.",
     [](const FieldSource& from) -> FieldValue { return from.outcome.reason; }},
    {"step", "", FieldKind::kText, "",
     "Step at which the ranks of the newest group did not agree: `capabilities`, `controller`, "
     "`stop`, `start`, `probe`, `sums` or `connect`. Empty if they agreed.",
     [](const FieldSource& from) -> FieldValue { return std::string(nameOf(from.outcome.step)); }},
    {"passed", "", FieldKind::kTexts, "", "Steps before `step`.",
     [](const FieldSource& from) -> FieldValue { return passedSteps(from.outcome); }},
    {"objection", "", FieldKind::kText, "",
     "Reason why this rank itself could not delegate. Empty if it could.",
     [](const FieldSource& from) -> FieldValue { return from.outcome.ownReason; }},
    {"late", "", FieldKind::kBoolean, "",
     "Whether SwitchML took half of its limit or longer to start on this rank.",
     [](const FieldSource& from) -> FieldValue { return from.outcome.late; }},
    {"capabilities", "", FieldKind::kTerms, "",
     "Settings of this rank that must be the same on all ranks. Empty if it could not delegate.",
     [](const FieldSource& from) -> FieldValue { return parsedTerms(from.outcome.capabilities); }},
    {"terms", "", FieldKind::kTerms, "",
     "Settings on which the ranks of the newest group have agreed. Empty if they did not.",
     [](const FieldSource& from) -> FieldValue { return parsedTerms(from.outcome.terms); }},
    {"filled_in", "", FieldKind::kText, "",
     "Values that this rank has filled in to its configuration, as `key=value`.",
     [](const FieldSource& from) -> FieldValue { return from.statistics.filled.get(); }},
    {"calls", "switchml_allreduces_total", FieldKind::kCounter, "",
     "Allreduces that SwitchML has summed.",
     [](const FieldSource& from) -> FieldValue { return from.statistics.calls.load(); }},
    {"bytes", "switchml_bytes_total", FieldKind::kCounter, "",
     "Bytes of the allreduces that SwitchML has summed, on this rank: 4 for each element.",
     [](const FieldSource& from) -> FieldValue { return from.statistics.bytes.load(); }},
    {"", "switchml_allreduce_seconds", FieldKind::kHistogram, "",
     "Times of the allreduces that SwitchML has summed, from the first copy to the last.",
     [](const FieldSource& from) -> FieldValue { return &from.statistics.times; }},
    {"", "switchml_waited_seconds_total", FieldKind::kSeconds, "",
     "Time that allreduces waited for the switch and other ranks. Several can wait at once.",
     [](const FieldSource& from) -> FieldValue {
       return 1e-9 * static_cast<double>(from.runtime.waited.load());
     }},
    {"fallbacks", "switchml_gloo_allreduces_total", FieldKind::kCounters,
     "reason group op dtype tensors numel",
     "Allreduces that Gloo has done, by the condition that they did not meet.",
     [](const FieldSource& from) -> FieldValue {
       const auto& counts = from.statistics.fallbacks;
       return Counts(counts.begin(), counts.end());
     }},
    {"", "switchml_other_group_bytes_total", FieldKind::kCounter, "",
     "Bytes that Gloo has summed for groups other than the delegating one, although its settings "
     "allow them.",
     [](const FieldSource& from) -> FieldValue { return from.statistics.otherGroupBytes.load(); }},
    {"packets.sent", "switchml_packets_sent_total", FieldKind::kOptional, "",
     "Packets that were sent to the switch.",
     [](const FieldSource& from) -> FieldValue { return from.packets.sent; }},
    {"packets.answers", "switchml_packets_answered_total", FieldKind::kOptional, "",
     "Answers of the switch.",
     [](const FieldSource& from) -> FieldValue { return from.packets.answers; }},
    {"packets.wrong", "switchml_packets_wrong_total", FieldKind::kOptional, "",
     "Packets that came and were no answer.",
     [](const FieldSource& from) -> FieldValue { return from.packets.wrong; }},
    {"packets.timeouts", "switchml_timeouts_total", FieldKind::kOptional, "",
     "Timeouts. After each, a packet was sent again (with RDMA, a message).",
     [](const FieldSource& from) -> FieldValue { return from.packets.timeouts; }},
    {"failover.failovers", "switchml_failovers_total", FieldKind::kCounter, "",
     "Failures after which the ranks went on over Gloo.",
     [](const FieldSource& from) -> FieldValue {
       return from.statistics.failover.failovers.load();
     }},
    {"failover.returns", "switchml_returns_total", FieldKind::kCounter, "",
     "Failures after which the ranks have returned to SwitchML.",
     [](const FieldSource& from) -> FieldValue { return from.statistics.failover.resumes.load(); }},
    {"failover.reason", "", FieldKind::kText, "",
     "First rank that noticed the newest failure, and the reason.",
     [](const FieldSource& from) -> FieldValue { return from.state.failure; }},
    {"failover.redone", "", FieldKind::kCounter, "",
     "Jobs of this rank that were pending at a failure, and were summed again over Gloo, or whose "
     "sum was taken from another rank.",
     [](const FieldSource& from) -> FieldValue { return from.statistics.failover.redone.load(); }},
    {"failover.calls", "switchml_failover_allreduces_total", FieldKind::kCounter, "",
     "Allreduces of which at least one job went over Gloo after a failure. They do not count as "
     "delegated.",
     [](const FieldSource& from) -> FieldValue { return from.statistics.failover.calls.load(); }},
    {"failover.seconds", "switchml_failover_seconds_total", FieldKind::kSeconds, "",
     "Time over Gloo after failures.",
     [](const FieldSource& from) -> FieldValue { return from.statistics.failover.seconds(); }},
    {"", "switchml_written_timestamp_seconds", FieldKind::kTimestamp, "",
     "Unix time at which the metrics were written, in seconds.",
     [](const FieldSource&) -> FieldValue {
       return static_cast<std::uint64_t>(std::time(nullptr));
     }},
    {"", "switchml_state", FieldKind::kGauges, "state delegating gloo failover failed ended",
     "1 for what this rank does now, 0 for the other states.",
     [](const FieldSource& from) -> FieldValue { return statesOf(from); }},
};

FieldValue fieldValue(const ReportField& field, const FieldSource& from) {
  return field.kind == FieldKind::kOptional && !from.packets.known ? FieldValue()
                                                                   : field.value(from);
}

/// Splits the labels of a field: the name comes first, then its values.
Texts labelsOfField(const ReportField& field) {
  std::istringstream words(field.labels);
  return {std::istream_iterator<std::string>(words), {}};
}

/// Members of a JSON object; null if there are none.
class JsonObject {
 public:
  void add(const std::string& key, const std::string& value) {
    members_ += text(members_.empty() ? "" : ", ", inQuotes(key), ": ", value);
  }
  std::string str() const { return members_.empty() ? "null" : text('{', members_, '}'); }

 private:
  std::string members_;
};

/// Returns a value as JSON.
struct ToJson {
  const ReportField& field;

  std::string operator()(std::monostate /*absent*/) const { return "null"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::uint64_t value) const { return text(value); }
  std::string operator()(double value) const { return text(value); }
  std::string operator()(const std::string& value) const { return inQuotes(value); }
  std::string operator()(const Texts& values) const {
    return text('[', joined(values, ", ", [](const auto& one) { return inQuotes(one); }), ']');
  }
  std::string operator()(const Terms& terms) const {
    return text('{',
                joined(terms, ", ",
                       [](const auto& term) {
                         return text(inQuotes(term.first), ": ", inQuotes(term.second));
                       }),
                '}');
  }
  std::string operator()(const Counts& counts) const {
    const auto labels = labelsOfField(field);
    JsonObject out;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      out.add(labels.at(i + 1), text(counts[i]));
    }
    return out.str();
  }
  std::string operator()(const DurationHistogram* times) const { return text(times->seconds()); }
};

const char* metricType(FieldKind kind) {
  return kind == FieldKind::kHistogram                                 ? "histogram"
         : kind == FieldKind::kTimestamp || kind == FieldKind::kGauges ? "gauge"
                                                                       : "counter";
}

/// Adds the samples of a value to a page.
struct ToSamples {
  const ReportField& field;
  MetricsPage& page;

  void operator()(std::uint64_t value) const { page.sample(field.metric, {}, value); }
  void operator()(double value) const { page.sample(field.metric, {}, value); }
  void operator()(const DurationHistogram* times) const { page.samples(field.metric, *times); }
  void operator()(const Counts& counts) const {
    const auto labels = labelsOfField(field);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      page.sample(field.metric, {{labels.at(0), labels.at(i + 1)}}, counts[i]);
    }
  }
  template <typename Other>
  void operator()(const Other& /*no number*/) const {}
};

}  // namespace

FieldSource::FieldSource(const Runtime& own, const Statistics& counted, bool exits)
    : runtime(own),
      statistics(counted),
      last(exits),
      lost(own.library.lost()),
      delegating(!lost && own.group() != nullptr),
      state(own.state.get()),
      outcome(counted.outcome.get()),
      packets(own.library.packets()) {}

std::string reportJson(const FieldSource& source) {
  JsonObject report;
  std::string outer;
  JsonObject inner;
  const auto endInner = [&] {
    if (!outer.empty()) {
      report.add(outer, inner.str());
    }
    outer.clear();
    inner = {};
  };
  for (const auto& field : kFields) {
    const std::string key = field.key;
    if (key.empty()) {
      continue;
    }
    const auto dot = key.find('.');
    const auto object = dot == std::string::npos ? "" : key.substr(0, dot);
    if (object != outer) {
      endInner();
      outer = object;
    }
    const auto value = fieldValue(field, source);
    if (std::holds_alternative<std::monostate>(value)) {
      continue;
    }
    auto& target = outer.empty() ? report : inner;
    target.add(key.substr(dot + 1), std::visit(ToJson{field}, value));
  }
  endInner();
  return report.str();
}

void addMetrics(MetricsPage& page, const FieldSource& source) {
  for (const auto& field : kFields) {
    if (*field.metric == '\0') {
      continue;
    }
    const auto value = fieldValue(field, source);
    if (!std::holds_alternative<std::monostate>(value)) {
      page.begin(field.metric, field.help, metricType(field.kind));
      std::visit(ToSamples{field, page}, value);
    }
  }
}

}  // namespace switchml_delegate
