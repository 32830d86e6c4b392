/// Measurement of the number of elements from which on SwitchML is faster than Gloo.
///
/// All ranks of a group find the same number: what decides is the time of the slowest rank, and
/// each rank knows that of all others. SwitchML is not known here.
#pragma once

#include "SwitchMLAgreement.hpp"

namespace switchml_torch {

/// Nanoseconds that an allreduce takes on the slowest rank.
struct Timing {
  std::uint64_t numel = 0;
  std::uint64_t switchml = 0;
  std::uint64_t gloo = 0;
};

class Crossover {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  static constexpr std::uint64_t kLeast = std::uint64_t{1} << 8U;  // elements
  static constexpr std::uint64_t kMost = std::uint64_t{1} << 22U;
  static constexpr std::uint64_t kStep = 4;
  static constexpr std::uint64_t kNever = UINT64_MAX;

  /// Collectives that all ranks call in the same order.
  struct Collectives {
    /// Time of an allreduce on this rank.
    std::function<Nanoseconds(std::uint64_t numel)> switchml;
    std::function<Nanoseconds(std::uint64_t numel)> gloo;
    /// Largest of the numbers of all ranks.
    std::function<std::uint64_t(std::uint64_t number)> largest;
  };

  /// Times both by size, in turns, the least size in any case. No further one is begun once
  /// `enough` time has passed, and it takes at most about four times as long as the one before.
  static std::vector<Timing> measure(const Collectives& collectives, Nanoseconds enough) {
    std::vector<Timing> out;
    Nanoseconds passed{0};
    for (auto numel = kLeast; numel <= kMost && (out.empty() || passed < enough); numel *= kStep) {
      std::vector<Nanoseconds> switchml;
      std::vector<Nanoseconds> gloo;
      Nanoseconds all{0};
      for (std::size_t round = 0; round < 1 + roundsOf(numel); ++round) {
        switchml.push_back(collectives.switchml(numel));
        gloo.push_back(collectives.gloo(numel));
        all += switchml.back() + gloo.back();
      }
      const auto largest = [&](Nanoseconds time) {
        return collectives.largest(static_cast<std::uint64_t>(time.count()));
      };
      Timing timing;
      timing.numel = numel;
      timing.switchml = largest(medianOf(std::move(switchml)));
      timing.gloo = largest(medianOf(std::move(gloo)));
      out.push_back(timing);
      passed += Nanoseconds(largest(all));
    }
    return out;
  }

  /// Least of the sizes from which on SwitchML is faster at all that were measured, or kNever.
  static std::uint64_t find(const std::vector<Timing>& timings) {
    auto found = kNever;
    for (auto timing = timings.rbegin(); timing != timings.rend(); ++timing) {
      if (timing->switchml >= timing->gloo) {
        break;
      }
      found = timing->numel;
    }
    return found;
  }

  /// Times as a list of JSON, in seconds.
  static std::string json(const std::vector<Timing>& timings) {
    std::string out;
    for (const auto& timing : timings) {
      out += text(out.empty() ? "" : ", ", "{\"numel\": ", timing.numel,
                  ", \"switchml\": ", 1e-9 * static_cast<double>(timing.switchml),
                  ", \"gloo\": ", 1e-9 * static_cast<double>(timing.gloo), "}");
    }
    return "[" + out + "]";
  }

 private:
  /// Allreduces of a size that count. The first does not: it finds the row in no cache.
  static std::size_t roundsOf(std::uint64_t numel) {
    constexpr std::uint64_t kAll = std::uint64_t{1} << 18U;  // elements of all of them
    return std::clamp<std::uint64_t>(kAll / numel, 3, 7);
  }

  /// Without the first.
  static Nanoseconds medianOf(std::vector<Nanoseconds> times) {
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() + 1) / 2);
    std::nth_element(times.begin() + 1, middle, times.end());
    return *middle;
  }
};

}  // namespace switchml_torch
