#include "recover/counters.hpp"

#include <chrono>

namespace switchml_delegate {
namespace {

std::int64_t steadyMilliseconds() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

}  // namespace

double FailoverCounters::seconds() const {
  const auto begun = startedAtMs.load();
  const auto pending = begun == 0 ? 0 : steadyMilliseconds() - begun;
  return static_cast<double>(endedMs.load() + pending) / 1000;
}

void FailoverCounters::begin() {
  startedAtMs = steadyMilliseconds();
  ++failovers;
}

void FailoverCounters::end() {
  if (const auto begun = startedAtMs.exchange(0); begun != 0) {
    endedMs += steadyMilliseconds() - begun;
  }
}

}  // namespace switchml_delegate
