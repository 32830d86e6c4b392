/// Settings of a rank: the variables of its environment. Knows nothing of SwitchML.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "SwitchMLInterface.hpp"

namespace switchml_delegate {

/// Some of the values of an enumeration, which are counted from 0 and have names. A value: threads
/// share it only if none changes it.
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

  std::string names(const char* between) const;

  /// Chooses the values in a list of names with commas. Returns false if one is not known.
  bool choose(const std::string& list);

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

  /// How many of so many elements are sent in fewer bits: the first ones.
  std::uint64_t numel(std::uint64_t all) const noexcept {
    return bits == kWhole || all < minNumel ? 0 : skipIncomplete ? all - all % bucket : all;
  }
};

/// Directory of the file of the metrics, and how often it is written.
struct MetricsTarget {
  std::string directory;  // empty: nothing is written
  std::uint64_t seconds = 10;

  /// Reads these two settings. Returns the reason why one is wrong; else empty.
  std::string read();
};

/// Values of the table in settings.cpp, which reads and checks them, and makes the terms of those
/// that must be the same on all ranks. The thread that makes a group calls the functions.
struct Settings {
  static constexpr std::uint64_t kNoLimit = UINT64_MAX;
  static constexpr std::uint64_t kFailoverMs = 60'000;  // of a group that fails over and has none

  Quantization quantization;
  Choice dtypes{kDtypes};
  Choice ops{kOps};
  std::uint64_t minNumel = 1;
  std::uint64_t chunkNumel = std::uint64_t{1} << 20;  // elements of a job at most
  std::uint64_t timeoutMs = kNoLimit;      // the limit of a job; the group's is another one
  bool failsOver = false;                  // the ranks go on over Gloo when the context fails
  std::uint64_t firstDelegatingGroup = 1;  // number of the first group of its size that delegates
  MetricsTarget metricsTarget;

  /// Reads all variables whose names begin with `prefix`. One that is unset or wrong leaves its
  /// value as it is. Returns the reason why the first wrong one is; else empty.
  std::string read(const std::string& prefix = "");

  /// Settings that must be the same on all ranks, as ` NAME=VALUE` each.
  std::string terms() const;
};

/// Name of the job that this process belongs to; empty if no launcher gives one.
std::string jobName();

}  // namespace switchml_delegate
