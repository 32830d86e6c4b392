/// Settings of the environment for the jobs of a group.
///
/// SwitchML is not known here.
#pragma once

#include <fcntl.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "SwitchMLInterface.hpp"
#include "base/quantize.hpp"
#include "base/text.hpp"

namespace switchml_delegate {

/// Some of the values of an enumeration, which are counted from 0 and have names.
class Choice {
 public:
  template <std::size_t N>
  explicit constexpr Choice(const std::array<const char*, N>& names)
      : names_(names.data()), count_(N), bits_((1U << N) - 1) {}

  template <typename Value>
  bool has(Value value) const noexcept {
    const auto i = static_cast<std::size_t>(value);
    return i < count_ && (bits_ >> i & 1U) != 0;
  }

  std::string names(const char* between) const {
    std::string out;
    for (std::size_t i = 0; i < count_; ++i) {
      out += has(i) ? text(out.empty() ? "" : between, names_[i]) : "";
    }
    return out;
  }

  /// Reads a variable that is a list of names with commas; all are chosen where it is not set.
  /// Returns what is wrong with it.
  std::string read(const char* name) {
    const char* given = std::getenv(name);
    if (given == nullptr || *given == '\0') {
      return "";
    }
    const auto all = names(", ");
    bits_ = 0;
    std::istringstream parts(given);
    for (std::string part; std::getline(parts, part, ',');) {
      const auto* const found = std::find_if(names_, names_ + count_, [&](const char* known) {
        return strcasecmp(known, part.c_str()) == 0;
      });
      if (found == names_ + count_) {
        return text(name, " is '", given, "', not a list of ", all);
      }
      bits_ |= 1U << (found - names_);
    }
    return "";
  }

 private:
  const char* const* names_;
  std::size_t count_;
  unsigned bits_;
};

constexpr std::array<const char*, 4> kDtypes{"float32", "int32", "bfloat16", "float16"};
constexpr std::array<const char*, 2> kOps{"SUM", "AVG"};
static_assert(kDtypes.size() == static_cast<std::size_t>(Element::kOther) &&
                  kOps.size() == static_cast<std::size_t>(Op::kOther),
              "a name for each value");

/// How the float sums of a group are sent in fewer bits.
struct Quantization {
  static constexpr std::uint64_t kWhole = 32;  // bits of a value that is sent as it is
  std::uint64_t bits = kWhole;
  std::uint64_t bucket = 512;  // values that share a scale
  std::uint64_t minNumel = 1024;
  bool skipIncomplete = false;  // a bucket that is not full is sent as it is

  /// Returns what is wrong.
  std::string read() {
    constexpr const char* kBits = "SWITCHML_QUANTIZATION_BITS";
    for (const auto& wrong :
         {readNumber(kBits, "bits", bits),
          readNumber("SWITCHML_QUANTIZATION_BUCKET_SIZE", "values", bucket, kMostCounted),
          readNumber("SWITCHML_QUANTIZATION_MINIMAL_SIZE", "elements", minNumel, kMostCounted)}) {
      if (!wrong.empty()) {
        return wrong;
      }
    }
    skipIncomplete = isSet("SWITCHML_QUANTIZATION_SKIP_INCOMPLETE_BUCKETS");
    return bits <= quantize::kMostBits || bits == kWhole
               ? ""
               : text(kBits, " is '", bits, "', not 1 to ", quantize::kMostBits, ", or ", kWhole);
  }

  /// How many of so many elements are sent in fewer bits: the first ones.
  std::uint64_t numel(std::uint64_t all) const noexcept {
    return bits == kWhole || all < minNumel ? 0 : skipIncomplete ? all - all % bucket : all;
  }

  std::string terms() const {
    return bits == kWhole ? ""
                          : text(" SWITCHML_QUANTIZATION_BUCKET_SIZE=", bucket,
                                 " SWITCHML_QUANTIZATION_MINIMAL_SIZE=", minNumel,
                                 " SWITCHML_QUANTIZATION_SKIP_INCOMPLETE_BUCKETS=", skipIncomplete);
  }
};

/// Reads a variable that is 0 or 1; leaves `value` as it is where it is not set. Returns what is
/// wrong with it.
inline std::string readSwitch(const char* name, bool& value) {
  const char* const given = std::getenv(name);
  if (given == nullptr || *given == '\0') {
    return "";
  }
  const std::string read = given;
  value = read == "1";
  return value || read == "0" ? "" : text(name, " is '", read, "', not 0 or 1");
}

/// Directory of the file of the metrics, and how often it is written.
struct MetricsTarget {
  std::string directory;  // empty: nothing is written
  std::uint64_t seconds = 10;

  /// Returns what is wrong.
  std::string read() {
    constexpr const char* kDirectory = "SWITCHML_METRICS";
    if (auto wrong = readNumber("SWITCHML_METRICS_SECONDS", "seconds", seconds); !wrong.empty()) {
      return wrong;
    }
    seconds = std::min<std::uint64_t>(seconds, 86400);
    const char* const given = std::getenv(kDirectory);
    if (given == nullptr || *given == '\0') {
      return "";
    }
    const std::unique_ptr<char, decltype(&std::free)> real(realpath(given, nullptr), std::free);
    struct stat found {};
    std::string why;
    if (!real || stat(real.get(), &found) != 0) {
      why = text(": ", std::strerror(errno));
    } else if (!S_ISDIR(found.st_mode)) {
      why = ", not a directory";
    } else if (faccessat(AT_FDCWD, real.get(), W_OK | X_OK, AT_EACCESS) != 0) {
      why = text(", where no file can be made: ", std::strerror(errno));
    } else {
      directory = real.get();
    }
    return why.empty() ? "" : text(kDirectory, " is '", given, "'", why);
  }
};

/// Name of the job that this process belongs to; empty where no launcher gives one.
inline std::string jobName() {
  for (const char* name : {"SWITCHML_JOB", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"}) {
    const char* const value = std::getenv(name);
    // torchrun's own value for a run without --rdzv-id is "none".
    if (value != nullptr && *value != '\0' && std::strcmp(value, "none") != 0) {
      return shortened(value);
    }
  }
  return "";
}

struct Settings {
  static constexpr std::uint64_t kNoLimit = UINT64_MAX;
  static constexpr std::uint64_t kFailoverMs = 60'000;  // where a group that fails over has none

  Quantization quantization;
  Choice dtypes{kDtypes};
  Choice ops{kOps};
  std::uint64_t minNumel = 1;
  std::uint64_t chunkNumel = std::uint64_t{1} << 20;  // elements of a job at most
  std::uint64_t timeoutMs = kNoLimit;  // the limit of a job; the group's is another one
  bool failsOver = false;              // the ranks go on over Gloo when the context fails
  std::uint64_t group = 1;             // the first that may delegate of the groups of a size
  MetricsTarget metricsTarget;

  /// Returns what is wrong.
  std::string read() {
    for (const auto& wrong :
         {readNumber("SWITCHML_MIN_NUMEL", "elements", minNumel),
          readNumber("SWITCHML_CHUNK_NUMEL", "elements", chunkNumel, kMostCounted),
          readNumber("SWITCHML_TIMEOUT_MS", "milliseconds", timeoutMs),
          readSwitch("SWITCHML_FAILOVER", failsOver), readNumber("SWITCHML_GROUP", "groups", group),
          dtypes.read("SWITCHML_DTYPES"), ops.read("SWITCHML_OPS"), quantization.read(),
          metricsTarget.read()}) {
      if (!wrong.empty()) {
        return wrong;
      }
    }
    timeoutMs = failsOver && timeoutMs == kNoLimit ? kFailoverMs : timeoutMs;
    return "";
  }
};

}  // namespace switchml_delegate
