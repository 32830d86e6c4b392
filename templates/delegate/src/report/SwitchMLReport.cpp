#include "report/SwitchMLReport.hpp"

#include <system_error>

#include "SwitchMLDelegate.hpp"

namespace switchml_torch {
namespace {

using metrics::inQuotes;

std::string termsJson(const std::string& agreed) {
  std::string out;
  for (const auto& [name, value] : readTerms(agreed)) {
    out += text(out.empty() ? "" : ", ", inQuotes(name), ": ", inQuotes(value));
  }
  return out;
}

/// The counters of this process, for a file that monitoring reads.
std::string metricsPage(const Delegate& delegate, bool last) {
  const auto count = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
  metrics::Page page(board.labels.get());
  page.counter("switchml_allreduces_total", "Allreduces that SwitchML has summed.",
               count(board.calls));
  page.counter("switchml_bytes_total", "Bytes of these allreduces on this rank.",
               count(board.bytes));
  page.begin("switchml_gloo_allreduces_total", "Allreduces that were left to Gloo.", "counter");
  for (std::size_t i = 0; i < kFallbacks; ++i) {
    page.sample("switchml_gloo_allreduces_total", {{"reason", kFallbackNames[i]}},
                count(board.fallbacks[i]));
  }
  page.counter("switchml_other_group_bytes_total",
               "Bytes that another group of as many ranks has left to Gloo.",
               delegate.groups.left());
  page.histogram("switchml_allreduce_seconds", "Times of allreduces that SwitchML has summed.",
                 board.times);
  page.counter("switchml_waited_seconds_total",
               "Time that allreduces waited for the switch and other ranks.",
               1e-9 * static_cast<double>(count(board.waited)));
  if (const auto counted = delegate.library.packets(); counted.known) {
    page.counter("switchml_packets_sent_total", "Packets that were sent.", counted.sent);
    page.counter("switchml_packets_answered_total", "Answers of the switch.", counted.answers);
    page.counter("switchml_packets_wrong_total", "Packets that came and were no answer.",
                 counted.wrong);
    page.counter("switchml_timeouts_total", "Timeouts; after each, packets were sent again.",
                 counted.timeouts);
  }
  const auto& failover = board.failover;
  page.counter("switchml_failovers_total", "Failures after which the ranks went on over Gloo.",
               count(failover.failovers));
  page.counter("switchml_returns_total", "Failures after which they have returned to SwitchML.",
               count(failover.returns));
  page.counter("switchml_failover_allreduces_total", "Allreduces that went over Gloo then.",
               count(failover.calls));
  page.counter("switchml_failover_seconds_total", "Time over Gloo after these failures.",
               failover.seconds());
  page.begin("switchml_written_timestamp_seconds", "Unix time of this write, in seconds.", "gauge");
  page.sample("switchml_written_timestamp_seconds", {}, std::time(nullptr));
  page.begin("switchml_state", "1 for what this rank does now: see the label.", "gauge");
  const auto kind = delegate.state.get().kind;
  const std::string now = kind == DelegationState::Kind::kBroken      ? "failed"
                          : last                                      ? "ended"
                          : board.delegation.load() == nullptr        ? "gloo"
                          : kind == DelegationState::Kind::kSuspended ? "failover"
                                                                      : "delegating";
  for (const char* const one : {"delegating", "gloo", "failover", "failed", "ended"}) {
    page.sample("switchml_state", {{"state", one}}, one == now ? 1 : 0);
  }
  return page.str();
}

}  // namespace

void Report::start(int rank) {
  metrics::Target target;
  auto& delegate = Delegate::get();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (writer_ || delegate.library.lost() || !target.read().empty() || target.directory.empty()) {
    return;
  }
  try {
    writer_ = std::make_unique<metrics::Writer>(
        metrics::filePath(target.directory, rank), std::chrono::seconds(target.seconds),
        [&delegate](bool last) { return metricsPage(delegate, last); },
        [](const std::string& why) {
          say(text("warning: the metrics are not written, and will be tried again: ", why));
        });
    on_exit([](int /*status*/, void* /*argument*/) { Delegate::get().report.end(); }, nullptr);
  } catch (const std::system_error& error) {
    say(text("warning: the metrics are not written: ", error.what()));
  }
}

void Report::wake() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (writer_) {
    writer_->wake();
  }
}

void Report::end() {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto writer = std::move(writer_);
  lock.unlock();
}

std::string Report::json() {
  const auto& delegate = Delegate::get();
  const bool lost = delegate.library.lost();
  const auto& state = delegate.state.get();
  const auto& group = board.group.get();
  const auto& build = Build::get();
  const auto& failover = board.failover;
  std::string fallbacks;
  for (std::size_t i = 0; i < kFallbacks; ++i) {
    fallbacks +=
        text(i == 0 ? "" : ", ", inQuotes(kFallbackNames[i]), ": ", board.fallbacks[i].load());
  }
  return text(
      "{\"problem\": \"\", \"flags\": ", inQuotes(build.flags),
      ", \"simulator\": ", build.simulator ? "true" : "false", ", \"protocol\": ", kProtocol,
      ", \"client\": ", inQuotes(build.client),
      ", \"delegating\": ", !lost && board.delegation.load() != nullptr ? "true" : "false",
      ", \"failure\": ",
      inQuotes(state.kind == DelegationState::Kind::kBroken ? state.why
               : lost                                       ? kForked
                                                            : ""),
      ", \"group\": ", inQuotes(group.line()), ", \"world_size\": ", group.size,
      ", \"decision\": ", inQuotes(group.decision), ", \"reason\": ", inQuotes(group.reason),
      ", \"step\": ", inQuotes(nameOf(group.step)), ", \"objection\": ", inQuotes(group.objection),
      ", \"late\": ", group.late ? "true" : "false", ", \"capabilities\": {",
      termsJson(group.capabilities), "}, \"terms\": {", termsJson(group.terms),
      "}, \"filled_in\": ", inQuotes(board.filled.get()), ", \"calls\": ", board.calls.load(),
      ", \"bytes\": ", board.bytes.load(), ", \"hint\": ", inQuotes(delegate.groups.hint()),
      ", \"packets\": ", delegate.library.packets().json(), ", \"fallbacks\": {", fallbacks,
      "}, \"failover\": {\"failovers\": ", failover.failovers.load(),
      ", \"returns\": ", failover.returns.load(), ", \"reason\": ", inQuotes(state.failure),
      ", \"redone\": ", failover.redone.load(), ", \"calls\": ", failover.calls.load(),
      ", \"seconds\": ", failover.seconds(), "}}");
}

}  // namespace switchml_torch
