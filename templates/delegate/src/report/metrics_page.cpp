#include "report/metrics_page.hpp"

#include <algorithm>
#include <limits>
#include <locale>

#include "base/text.hpp"

namespace switchml_delegate {

MetricsPage::MetricsPage(Labels labels) : labels_(std::move(labels)) {
  labels_.erase(std::remove_if(labels_.begin(), labels_.end(),
                               [](const auto& label) { return label.second.empty(); }),
                labels_.end());
  out_.imbue(std::locale::classic());
  out_.precision(std::numeric_limits<double>::digits10);
}

void MetricsPage::begin(const std::string& name, const std::string& help, const std::string& type) {
  out_ << "# HELP " << name << ' ' << help << "\n# TYPE " << name << ' ' << type << '\n';
}

void MetricsPage::sample(const std::string& name, const Labels& more, std::uint64_t value) {
  beginSample(name, more);
  out_ << value << '\n';
}

void MetricsPage::sample(const std::string& name, const Labels& more, double value) {
  beginSample(name, more);
  out_ << value << '\n';
}

void MetricsPage::samples(const std::string& name, const DurationHistogram& times) {
  constexpr auto& kBounds = DurationHistogram::kBounds;
  const auto counts = times.counts();
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    all += counts[i];
    sample(name + "_bucket", {{"le", i < kBounds.size() ? text(kBounds[i]) : "+Inf"}}, all);
  }
  sample(name + "_sum", {}, times.seconds());
  sample(name + "_count", {}, all);
}

void MetricsPage::beginSample(const std::string& name, const Labels& more) {
  auto labels = labels_;
  labels.insert(labels.end(), more.begin(), more.end());
  const auto all = joined(labels, ",", [](const auto& label) {
    return text(label.first, '=', inQuotes(label.second, '~', '?'));  // ASCII only
  });
  out_ << name << (all.empty() ? "" : text('{', all, '}')) << ' ';
}

}  // namespace switchml_delegate
