#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

[[maybe_unused]] constexpr auto kEnough = std::chrono::minutes(2);

void check(bool fact, const std::string& what) {
  if (!fact) {
    std::fprintf(stderr, "FAILED: %s\n", what.c_str());
    std::_Exit(1);
  }
}

}  // namespace

/// Runs all scenarios of the threads that take parts of a row; ends the process where one fails.
void checkThreads(bool forks);

/// The same for the states of the delegate's classes.
void checkStates();
