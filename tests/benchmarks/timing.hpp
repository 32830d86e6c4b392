// How long a step takes, compared with a reference.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

/// Seconds of one run.
template <typename Step>
double secondsOf(const Step& step) {
  const auto begin = std::chrono::steady_clock::now();
  step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Runs two steps in turns. Prints a line for each pair: the name, and the seconds of both.
template <typename Step, typename Reference>
void compare(const std::string& name, const Step& step, const Reference& reference) {
  constexpr int kPairs = 15;
  step();
  reference();
  for (int pair = 0; pair < kPairs; ++pair) {
    const double ours = secondsOf(step);
    std::printf("%s %.9f %.9f\n", name.c_str(), ours, secondsOf(reference));
  }
}
