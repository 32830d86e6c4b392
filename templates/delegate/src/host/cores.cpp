#include "host/cores.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <utility>

#include "base/result_within.hpp"
#include "base/text.hpp"

namespace switchml_delegate {

CoreSet parseCores(const std::string& list) {
  CoreSet cores;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    std::istringstream range(part);
    std::uint64_t first = 0;
    if (!(range >> first)) {
      return {};
    }
    std::uint64_t last = first;
    if (char dash = 0; range >> dash && (dash != '-' || !(range >> last) || !range.eof())) {
      return {};
    }
    for (auto core = first; core <= last && cores.size() <= UINT16_MAX; ++core) {
      cores.insert(static_cast<unsigned>(core));
    }
  }
  return cores;
}

CoreSet ownCores() {
  std::array<cpu_set_t, 64> bits{};  // the kernel may know more than 1024
  CoreSet cores;
  if (sched_getaffinity(0, sizeof bits, bits.data()) == 0) {
    for (unsigned core = 0; core < 8 * sizeof bits; ++core) {
      if (CPU_ISSET_S(core, sizeof bits, bits.data())) {
        cores.insert(core);
      }
    }
  }
  return cores;
}

CoreSet allowedCores() {
  const auto found = resultWithin(std::chrono::seconds(5), [] {
    std::array<cpu_set_t, 64> every;
    std::memset(every.data(), 0xff, sizeof every);
    sched_setaffinity(0, sizeof every, every.data());
    return joined(ownCores(), ",");
  });
  const auto cores = found ? parseCores(*found) : CoreSet{};
  return cores.empty() ? ownCores() : cores;  // empty if no thread could be started
}

std::vector<unsigned> inOrder(const CoreSet& all, const CoreSet& near, const CoreSet& bound) {
  std::vector<unsigned> out(all.begin(), all.end());
  const auto rank = [&](unsigned core) {
    return std::make_pair(bound.count(core), near.count(core) == 0);
  };
  std::stable_sort(out.begin(), out.end(),
                   [&rank](unsigned a, unsigned b) { return rank(a) < rank(b); });
  return out;
}

}  // namespace switchml_delegate
