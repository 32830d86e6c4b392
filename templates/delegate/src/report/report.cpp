#include "report/report.hpp"

#include <exception>
#include <utility>

#include "base/quietly.hpp"
#include "base/text.hpp"
#include "join/settings.hpp"
#include "report/fields.hpp"
#include "say.hpp"
#include "sum/runtime.hpp"

namespace switchml_delegate {

Report::Report(const Runtime& runtime, const Statistics& statistics, Shutdown& shutdown)
    : runtime_(runtime), statistics_(statistics), shutdown_(shutdown) {}

void Report::start(int rank) {
  MetricsTarget target;
  if (runtime_.library.lost() || !target.read().empty() || target.directory.empty() ||
      started_.exchange(true)) {
    return;
  }
  try {
    auto writer = std::make_unique<MetricsWriter>(
        metricsFilePath(target.directory, rank), std::chrono::seconds(target.seconds),
        [this](bool last) { return metricsPage(last); },
        [](const std::string& reason) {
          say(text("warning: the metrics are not written, and will be tried again: ", reason));
        });
    shutdown_.metricsStarted();
    const MutexLock lock(mutex_);
    writer_ = std::move(writer);
  } catch (const std::exception& error) {
    started_ = false;
    quietly([&error] { say(text("warning: the metrics are not written: ", error.what())); });
  }
}

void Report::wake() noexcept {
  const MutexLock lock(mutex_);
  if (writer_) {
    writer_->wake();
  }
}

void Report::end(std::chrono::milliseconds limit) noexcept {
  MutexLock lock(mutex_);
  const auto writer = std::move(writer_);
  lock.unlock();
  if (writer) {
    writer->end(limit);
  }
}

std::string Report::json() const { return reportJson({runtime_, statistics_, /*exits=*/false}); }

std::string Report::metricsPage(bool last) const {
  MetricsPage page(statistics_.labels.get());
  addMetrics(page, {runtime_, statistics_, last});
  return page.str();
}

}  // namespace switchml_delegate
