// How long a step takes.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>

/// The shortest of some rounds, in seconds.
template <typename Step>
double best(const Step& step) {
  constexpr int kRounds = 15;
  double shortest = std::numeric_limits<double>::max();
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    step();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    shortest = std::min(shortest, taken.count());
  }
  return shortest;
}
