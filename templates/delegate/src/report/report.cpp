#include "report/report.hpp"

#include <system_error>

#include "base/say.hpp"
#include "join/config.hpp"

namespace switchml_delegate {
namespace {

std::string termsJson(const std::string& agreed) {
  return joined(readTerms(agreed), ", ", [](const auto& term) {
    return text(inQuotes(term.first), ": ", inQuotes(term.second));
  });
}

}  // namespace

std::string Report::metricsPage(bool last) const {
  metrics::Page page(statistics_.labels.get());
  page.counter("switchml_allreduces_total", "Allreduces that SwitchML has summed.",
               statistics_.calls.load());
  page.counter("switchml_bytes_total", "Bytes of these allreduces on this rank.",
               statistics_.bytes.load());
  page.begin("switchml_gloo_allreduces_total", "Allreduces that were left to Gloo.", "counter");
  for (std::size_t i = 0; i < kFallbacks; ++i) {
    page.sample("switchml_gloo_allreduces_total", {{"reason", kFallbackNames[i]}},
                statistics_.fallbacks[i].load());
  }
  page.counter("switchml_other_group_bytes_total",
               "Bytes that groups other than the delegating one have left to Gloo.",
               statistics_.otherGroupBytes.load());
  page.histogram("switchml_allreduce_seconds", "Times of allreduces that SwitchML has summed.",
                 statistics_.times);
  page.counter("switchml_waited_seconds_total",
               "Time that allreduces waited for the switch and other ranks.",
               1e-9 * static_cast<double>(runtime_.waited.load()));
  if (const auto counted = runtime_.library.packets(); counted.known) {
    page.counter("switchml_packets_sent_total", "Packets that were sent.", counted.sent);
    page.counter("switchml_packets_answered_total", "Answers of the switch.", counted.answers);
    page.counter("switchml_packets_wrong_total", "Packets that came and were no answer.",
                 counted.wrong);
    page.counter("switchml_timeouts_total", "Timeouts; after each, packets were sent again.",
                 counted.timeouts);
  }
  const auto& failover = statistics_.failover;
  page.counter("switchml_failovers_total", "Failures after which the ranks went on over Gloo.",
               failover.failovers.load());
  page.counter("switchml_returns_total", "Failures after which they have returned to SwitchML.",
               failover.returns.load());
  page.counter("switchml_failover_allreduces_total", "Allreduces that went over Gloo then.",
               failover.calls.load());
  page.counter("switchml_failover_seconds_total", "Time over Gloo after these failures.",
               failover.seconds());
  page.begin("switchml_written_timestamp_seconds", "Unix time of this write, in seconds.", "gauge");
  page.sample("switchml_written_timestamp_seconds", {}, std::time(nullptr));
  page.begin("switchml_state", "1 for what this rank does now: see the label.", "gauge");
  const auto kind = runtime_.state.get().kind;
  const std::string now = kind == DelegationState::Kind::kBroken      ? "failed"
                          : last                                      ? "ended"
                          : runtime_.group() == nullptr               ? "gloo"
                          : kind == DelegationState::Kind::kSuspended ? "failover"
                                                                      : "delegating";
  for (const char* const one : {"delegating", "gloo", "failover", "failed", "ended"}) {
    page.sample("switchml_state", {{"state", one}}, one == now ? 1 : 0);
  }
  return page.str();
}

void Report::start(int rank) {
  MetricsTarget target;
  if (runtime_.library.lost() || !target.read().empty() || target.directory.empty() ||
      started_.exchange(true)) {
    return;
  }
  try {
    auto writer = std::make_unique<metrics::Writer>(
        metrics::filePath(target.directory, rank), std::chrono::seconds(target.seconds),
        [this](bool last) { return metricsPage(last); },
        [](const std::string& why) {
          say(text("warning: the metrics are not written, and will be tried again: ", why));
        });
    shutdown_.metricsStarted();
    const std::lock_guard<std::mutex> lock(mutex_);
    writer_ = std::move(writer);
  } catch (const std::exception& error) {
    started_ = false;
    quietly([&error] { say(text("warning: the metrics are not written: ", error.what())); });
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

std::string Report::json() const {
  const bool lost = runtime_.library.lost();
  const auto& state = runtime_.state.get();
  const auto& group = statistics_.group.get();
  const auto& failover = statistics_.failover;
  std::string fallbacks;
  for (std::size_t i = 0; i < kFallbacks; ++i) {
    fallbacks += text(i == 0 ? "" : ", ", inQuotes(kFallbackNames[i]), ": ",
                      statistics_.fallbacks[i].load());
  }
  return text("{\"problem\": \"\", \"flags\": ", inQuotes(SWITCHML_DELEGATE_FLAGS),
              ", \"simulator\": ", kSimulator ? "true" : "false",
              ", \"sources\": ", inQuotes(SWITCHML_DELEGATE_DIGEST),
              ", \"client\": ", inQuotes(clientMark()),
              ", \"delegating\": ", !lost && runtime_.group() != nullptr ? "true" : "false",
              ", \"failure\": ",
              inQuotes(state.kind == DelegationState::Kind::kBroken ? state.why
                       : lost                                       ? kForked
                                                                    : ""),
              ", ", group.json(), ", \"objection\": ", inQuotes(group.ownReason),
              ", \"late\": ", group.late ? "true" : "false", ", \"capabilities\": {",
              termsJson(group.capabilities), "}, \"terms\": {", termsJson(group.terms),
              "}, \"filled_in\": ", inQuotes(statistics_.filled.get()),
              ", \"calls\": ", statistics_.calls.load(), ", \"bytes\": ", statistics_.bytes.load(),
              ", \"packets\": ", runtime_.library.packets().json(), ", \"fallbacks\": {", fallbacks,
              "}, \"failover\": {\"failovers\": ", failover.failovers.load(),
              ", \"returns\": ", failover.returns.load(), ", \"reason\": ", inQuotes(state.failure),
              ", \"redone\": ", failover.redone.load(), ", \"calls\": ", failover.calls.load(),
              ", \"seconds\": ", failover.seconds(), "}}");
}

}  // namespace switchml_delegate
