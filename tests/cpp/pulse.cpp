// Signs of life over connections that are made up. `closed`: the connection of a rank ends.
// `silent`: nothing is heard of a rank. `back`: its beats come again. `alive`: all ranks live.
// `stopped`: so they do, and were stopped for longer than a silent rank has. `left`: a rank leaves,
// and a beat comes late.
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "recover/SwitchMLPulse.hpp"
#include "wires.hpp"

namespace {

using std::chrono::milliseconds;
using switchml_torch::Pulse;
using wires::check;
using wires::Wires;

constexpr Pulse::Times kTimes{milliseconds(20), std::chrono::seconds(3)};
constexpr Pulse::Times kHasty{milliseconds(20), std::chrono::seconds(1)};
constexpr Pulse::Times kPatient{milliseconds(20), std::chrono::minutes(10)};

using Pulses = std::vector<std::unique_ptr<Pulse>>;

/// Pulses of all ranks; null for `absent`.
Pulses makePulses(Wires& wires, int size, Pulse::Times times, int absent = Pulse::kNobody) {
  Pulses pulses;
  for (int rank = 0; rank < size; ++rank) {
    pulses.push_back(rank == absent ? nullptr
                                    : std::make_unique<Pulse>(wires.of(rank), rank, size, times));
  }
  for (const auto& pulse : pulses) {
    if (pulse) {
      pulse->begin();
    }
  }
  return pulses;
}

/// All other ranks know soon that `gone` is gone.
void checkAllKnow(const Pulses& pulses, int gone) {
  for (std::size_t rank = 0; rank < pulses.size(); ++rank) {
    if (static_cast<int>(rank) == gone) {
      continue;
    }
    auto known = pulses[rank]->gone();
    for (int i = 0; i < 3000 && known != gone; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
      known = pulses[rank]->gone();
    }
    check(known == gone, "rank " + std::to_string(rank) + " knows of " + std::to_string(known) +
                             ", not of " + std::to_string(gone));
  }
}

void checkAllLive(const Pulses& pulses, milliseconds time) {
  const auto end = Pulse::Clock::now() + time;
  do {
    for (const auto& pulse : pulses) {
      check(pulse->gone() == Pulse::kNobody, "all live");
    }
    std::this_thread::sleep_for(milliseconds(1));
  } while (Pulse::Clock::now() < end);
}

void closeConnection(int size, int gone) {
  Wires wires(size);
  auto pulses = makePulses(wires, size, kPatient);
  checkAllLive(pulses, milliseconds(50));
  wires.cut(gone);
  checkAllKnow(pulses, gone);
}

void fallSilent(int size, int gone) {
  Wires wires(size);
  checkAllKnow(makePulses(wires, size, kTimes, gone), gone);
}

/// Nothing is heard of a rank for a while.
void comeBack(int size, int rank) {
  Wires wires(size);
  const auto pulses = makePulses(wires, size, kHasty);
  wires.mute(rank);
  checkAllKnow(pulses, rank);
  check(pulses[static_cast<std::size_t>(rank)]->gone() != rank, "a rank takes itself for gone");
  wires.mute(Pulse::kNobody);
  checkAllKnow(pulses, Pulse::kNobody);
}

void live() {
  Wires wires(3);
  checkAllLive(makePulses(wires, 3, kTimes), 3 * kTimes.silence / 2);
}

/// Stops this process for a while, soon. Called before there are threads.
void planStop(milliseconds time) {
  const auto stopped = getpid();
  if (fork() == 0) {
    std::this_thread::sleep_for(milliseconds(300));
    for (const auto signal : {SIGSTOP, SIGCONT}) {
      if (getppid() == stopped) {
        kill(stopped, signal);
        std::this_thread::sleep_for(time);
      }
    }
    _exit(0);
  }
}

void stop() {
  planStop(2 * kTimes.silence);
  Wires wires(3);
  checkAllLive(makePulses(wires, 3, kTimes), 3 * kTimes.silence);
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
  const auto ofRank = what == "closed" ? closeConnection : what == "silent" ? fallSilent : comeBack;
  if (what == "closed" || what == "silent" || what == "back") {
    std::vector<std::thread> cases;
    for (int size = 2; size <= 4; ++size) {
      for (int rank = 0; rank < size; ++rank) {
        cases.emplace_back(ofRank, size, rank);
      }
    }
    for (auto& one : cases) {
      one.join();
    }
  } else if (what == "alive") {
    live();
  } else if (what == "stopped") {
    stop();
  } else if (what == "left") {
    leave();
  } else {
    check(false, "usage: pulse closed|silent|back|alive|stopped|left");
  }
  std::puts("ok");
  return 0;
}
