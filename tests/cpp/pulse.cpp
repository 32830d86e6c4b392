// Signs of life over connections that are made up. `closed`: the connection of a rank ends.
// `silent`: nothing is heard of a rank. `alive`: all ranks live. `left`: a rank leaves, and a beat
// comes late.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "SwitchMLPulse.hpp"
#include "wires.hpp"

namespace {

using std::chrono::milliseconds;
using switchml_torch::Pulse;
using wires::check;
using wires::Wires;

constexpr Pulse::Times kTimes{milliseconds(20), std::chrono::seconds(3)};
constexpr Pulse::Times kPatient{milliseconds(20), std::chrono::minutes(10)};

/// Pulses of all ranks; null for `absent`.
std::vector<std::unique_ptr<Pulse>> makePulses(Wires& wires, int size, Pulse::Times times,
                                               int absent = Pulse::kNobody) {
  std::vector<std::unique_ptr<Pulse>> pulses;
  for (int rank = 0; rank < size; ++rank) {
    pulses.push_back(rank == absent ? nullptr
                                    : std::make_unique<Pulse>(wires.of(rank), rank, size, times));
  }
  return pulses;
}

void checkAllKnow(const std::vector<std::unique_ptr<Pulse>>& pulses, int gone) {
  for (std::size_t rank = 0; rank < pulses.size(); ++rank) {
    if (static_cast<int>(rank) == gone) {
      continue;
    }
    for (int i = 0; i < 3000 && pulses[rank]->gone() == Pulse::kNobody; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    const auto known = pulses[rank]->gone();
    check(known == gone, "rank " + std::to_string(rank) + " knows of " + std::to_string(known) +
                             ", not of " + std::to_string(gone));
  }
}

void close(int size, int gone) {
  Wires wires(size);
  auto pulses = makePulses(wires, size, kPatient);
  std::this_thread::sleep_for(milliseconds(50));
  for (const auto& pulse : pulses) {
    check(pulse->gone() == Pulse::kNobody, "all live");
  }
  wires.cut(gone);
  checkAllKnow(pulses, gone);
}

void silence(int size, int gone) {
  Wires wires(size);
  checkAllKnow(makePulses(wires, size, kTimes, gone), gone);
}

void live() {
  Wires wires(3);
  const auto pulses = makePulses(wires, 3, kTimes);
  std::this_thread::sleep_for(3 * kTimes.silence / 2);
  for (const auto& pulse : pulses) {
    check(pulse->gone() == Pulse::kNobody, "all live");
  }
}

/// A beat for a rank that has left finds none of its memory: a sanitizer would tell.
void leave() {
  Wires wires(2);
  auto pulses = makePulses(wires, 2, kPatient);
  std::this_thread::sleep_for(milliseconds(50));
  pulses[0]->close();
  pulses[0].reset();
  std::this_thread::sleep_for(milliseconds(50));
  check(pulses[1]->gone() == Pulse::kNobody, "the connection is there");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "closed" || what == "silent") {
    std::vector<std::thread> cases;
    for (int size = 2; size <= 4; ++size) {
      for (int gone = 0; gone < size; ++gone) {
        cases.emplace_back(what == "closed" ? close : silence, size, gone);
      }
    }
    for (auto& one : cases) {
      one.join();
    }
  } else if (what == "alive") {
    live();
  } else if (what == "left") {
    leave();
  } else {
    check(false, "usage: pulse closed|silent|alive|left");
  }
  std::puts("ok");
  return 0;
}
