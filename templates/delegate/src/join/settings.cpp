#include "join/settings.hpp"

#include <fcntl.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "base/quantize.hpp"
#include "base/text.hpp"
#include "environment.hpp"

namespace switchml_delegate {
namespace {

constexpr const char* kBits = "SWITCHML_QUANTIZATION_BITS";
constexpr std::uint64_t kAnyNumber = UINT64_MAX;
constexpr std::uint64_t kMaxSeconds = 86400;  // between writes of the metrics, a day

/// A setting that is on or off: by "1" or "0" alone if it is `strict`, else by any value but "0".
struct Switch {
  bool* on;
  bool strict;
};

/// A setting that names a directory in which files can be made.
struct Directory {
  std::string* path;
};

using Field = std::variant<std::uint64_t*, Switch, Choice*, Directory>;

/// When a setting is a term, which must be the same on all ranks.
enum class Shared { kNo, kAlways, kIfQuantized, kIfChanged };

struct Setting {
  const char* name;
  Field (*field)(Settings& settings);
  const char* unit;    // of a number
  std::uint64_t most;  // of a number
  Shared shared;
};

/// All settings, in the order of the terms. docs/runtime.md marks the shared ones.
constexpr std::array<Setting, 13> kSettings{{
    {"SWITCHML_MIN_NUMEL", [](Settings& all) -> Field { return &all.minNumel; }, "elements",
     kAnyNumber, Shared::kAlways},
    {"SWITCHML_CHUNK_NUMEL", [](Settings& all) -> Field { return &all.chunkNumel; }, "elements",
     kMaxCounted, Shared::kAlways},
    {"SWITCHML_DTYPES", [](Settings& all) -> Field { return &all.dtypes; }, "", 0, Shared::kAlways},
    {"SWITCHML_OPS", [](Settings& all) -> Field { return &all.ops; }, "", 0, Shared::kAlways},
    {kBits, [](Settings& all) -> Field { return &all.quantization.bits; }, "bits", kAnyNumber,
     Shared::kAlways},
    {"SWITCHML_QUANTIZATION_BUCKET_SIZE",
     [](Settings& all) -> Field { return &all.quantization.bucket; }, "values", kMaxCounted,
     Shared::kIfQuantized},
    {"SWITCHML_QUANTIZATION_MINIMAL_SIZE",
     [](Settings& all) -> Field { return &all.quantization.minNumel; }, "elements", kMaxCounted,
     Shared::kIfQuantized},
    {"SWITCHML_QUANTIZATION_SKIP_INCOMPLETE_BUCKETS",
     [](Settings& all) -> Field {
       return Switch{&all.quantization.skipIncomplete, false};
     },
     "", 0, Shared::kIfQuantized},
    {"SWITCHML_FAILOVER",
     [](Settings& all) -> Field {
       return Switch{&all.failsOver, true};
     },
     "", 0, Shared::kIfChanged},
    {"SWITCHML_GROUP", [](Settings& all) -> Field { return &all.firstDelegatingGroup; }, "groups",
     kAnyNumber, Shared::kIfChanged},
    {"SWITCHML_TIMEOUT_MS", [](Settings& all) -> Field { return &all.timeoutMs; }, "milliseconds",
     kAnyNumber, Shared::kNo},
    {"SWITCHML_METRICS_SECONDS", [](Settings& all) -> Field { return &all.metricsTarget.seconds; },
     "seconds", kAnyNumber, Shared::kNo},
    {"SWITCHML_METRICS",
     [](Settings& all) -> Field { return Directory{&all.metricsTarget.directory}; }, "", 0,
     Shared::kNo},
}};

/// Reads values of a setting that is set. Each returns the reason why the value is wrong.
class SettingReader {
 public:
  SettingReader(const Setting& setting, const char* given) : setting_(setting), given_(given) {}

  std::string operator()(std::uint64_t* value) const {
    return readNumber(setting_.name, setting_.unit, *value, setting_.most);
  }

  std::string operator()(const Switch& value) const {
    const std::string read = given_;
    *value.on = value.strict ? read == "1" : read != "0";
    return !value.strict || *value.on || read == "0" ? "" : wrong("', not 0 or 1");
  }

  std::string operator()(Choice* value) const {
    const auto all = value->names(", ");
    return value->choose(given_) ? "" : wrong("', not a list of " + all);
  }

  std::string operator()(const Directory& value) const {
    const std::unique_ptr<char, decltype(&std::free)> real(realpath(given_, nullptr), std::free);
    struct stat found {};
    if (!real || stat(real.get(), &found) != 0) {
      return wrong(text("': ", std::strerror(errno)));
    }
    if (!S_ISDIR(found.st_mode)) {
      return wrong("', not a directory");
    }
    if (faccessat(AT_FDCWD, real.get(), W_OK | X_OK, AT_EACCESS) != 0) {
      return wrong(text("', where no file can be made: ", std::strerror(errno)));
    }
    *value.path = real.get();
    return "";
  }

 private:
  std::string wrong(const std::string& reason) const {
    return text(setting_.name, " is '", given_, reason);
  }

  const Setting& setting_;
  const char* given_;
};

/// Writes the value of a setting for a term.
struct SettingWriter {
  std::string operator()(const std::uint64_t* value) const { return text(*value); }
  std::string operator()(const Switch& value) const { return text(*value.on); }
  std::string operator()(const Choice* value) const { return value->names(","); }
  std::string operator()(const Directory& value) const { return *value.path; }
};

std::string valueOf(const Setting& setting, Settings settings) {
  return std::visit(SettingWriter(), setting.field(settings));
}

bool isTerm(const Setting& setting, const Settings& settings) {
  switch (setting.shared) {
    case Shared::kAlways:
      return true;
    case Shared::kIfQuantized:
      return settings.quantization.bits != Quantization::kWhole;
    case Shared::kIfChanged:
      return valueOf(setting, settings) != valueOf(setting, Settings());
    case Shared::kNo:
      break;
  }
  return false;
}

}  // namespace

std::string Choice::names(const char* between) const {
  std::string out;
  for (std::size_t i = 0; i < count_; ++i) {
    out += has(i) ? text(out.empty() ? "" : between, names_[i]) : "";
  }
  return out;
}

bool Choice::choose(const std::string& list) {
  bits_ = 0;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto* const found = std::find_if(names_, names_ + count_, [&](const char* known) {
      return strcasecmp(known, part.c_str()) == 0;
    });
    if (found == names_ + count_) {
      return false;
    }
    bits_ |= 1U << (found - names_);
  }
  return true;
}

std::string MetricsTarget::read() {
  Settings settings;
  auto reason = settings.read("SWITCHML_METRICS");
  *this = std::move(settings.metricsTarget);
  return reason;
}

std::string Settings::read(const std::string& prefix) {
  std::string first;
  for (const auto& setting : kSettings) {
    const char* const given = std::getenv(setting.name);
    if (given == nullptr || *given == '\0' || std::string(setting.name).rfind(prefix, 0) != 0) {
      continue;
    }
    const auto reason = std::visit(SettingReader(setting, given), setting.field(*this));
    first = first.empty() ? reason : first;
  }
  const auto bits = quantization.bits;
  if (first.empty() && bits > quantize::kMaxBits && bits != Quantization::kWhole) {
    first = text(kBits, " is '", bits, "', not 1 to ", quantize::kMaxBits, ", or ",
                 Quantization::kWhole);
  }
  metricsTarget.seconds = std::min(metricsTarget.seconds, kMaxSeconds);
  timeoutMs = failsOver && timeoutMs == kNoLimit ? kFailoverMs : timeoutMs;
  return first;
}

std::string Settings::terms() const {
  std::string out;
  for (const auto& setting : kSettings) {
    out += isTerm(setting, *this) ? text(" ", setting.name, "=", valueOf(setting, *this)) : "";
  }
  return out;
}

std::string jobName() {
  for (const char* name : {"SWITCHML_JOB", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"}) {
    const char* const value = std::getenv(name);
    // torchrun's own value for a run without --rdzv-id is "none".
    if (value != nullptr && *value != '\0' && std::strcmp(value, "none") != 0) {
      return shortened(value);
    }
  }
  return "";
}

}  // namespace switchml_delegate
