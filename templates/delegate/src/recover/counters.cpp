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
  const auto begun = since.load();
  const auto pending = begun == 0 ? 0 : steadyMilliseconds() - begun;
  return static_cast<double>(ended.load() + pending) / 1000;
}

void FailoverCounters::begin() {
  since = steadyMilliseconds();
  ++failovers;
}

void FailoverCounters::end() {
  if (const auto begun = since.exchange(0); begun != 0) {
    ended += steadyMilliseconds() - begun;
  }
}

}  // namespace switchml_delegate
