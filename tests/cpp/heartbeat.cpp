// The heartbeat over connections that are made up. `closed`: the connection of a rank ends.
// `silent`: nothing comes from a rank. `back`: its beats come again. `news`: a rank forwards at
// once what it receives. `alive`: all ranks live. `stopped`: all ranks live, and were stopped for
// longer than `silence`. `left`: a rank leaves, and a beat comes late.
#include "recover/heartbeat.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "wires.hpp"

namespace {

using std::chrono::milliseconds;
using switchml_delegate::Beat;
using switchml_delegate::Heartbeat;
using wires::Wires;

constexpr Heartbeat::Times kTimes{milliseconds(20), std::chrono::seconds(3)};
constexpr Heartbeat::Times kHasty{milliseconds(20), std::chrono::seconds(1)};
constexpr Heartbeat::Times kPatient{milliseconds(20), std::chrono::minutes(10)};

using Heartbeats = std::vector<std::unique_ptr<Heartbeat>>;

/// Heartbeats of all ranks; null for `absent`.
Heartbeats makeHeartbeats(Wires& wires, int size, Heartbeat::Times times,
                          int absent = Heartbeat::kNobody) {
  Heartbeats heartbeats;
  for (int rank = 0; rank < size; ++rank) {
    heartbeats.push_back(
        rank == absent ? nullptr : std::make_unique<Heartbeat>(wires.of(rank), rank, size, times));
  }
  for (const auto& heartbeat : heartbeats) {
    if (heartbeat) {
      heartbeat->begin();
    }
  }
  return heartbeats;
}

/// Fails unless all other ranks know soon that `gone` is gone.
void checkAllKnow(const Heartbeats& heartbeats, int gone) {
  for (std::size_t rank = 0; rank < heartbeats.size(); ++rank) {
    if (static_cast<int>(rank) == gone) {
      continue;
    }
    auto known = heartbeats[rank]->gone();
    for (int i = 0; i < 3000 && known != gone; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
      known = heartbeats[rank]->gone();
    }
    check(known == gone, "rank " + std::to_string(rank) + " knows of " + std::to_string(known) +
                             ", not of " + std::to_string(gone));
  }
}

void checkAllLive(const Heartbeats& heartbeats, milliseconds time) {
  const auto end = Heartbeat::Clock::now() + time;
  do {
    for (const auto& heartbeat : heartbeats) {
      check(heartbeat->gone() == Heartbeat::kNobody, "all live");
    }
    std::this_thread::sleep_for(milliseconds(1));
  } while (Heartbeat::Clock::now() < end);
}

void closeConnection(int size, int gone) {
  Wires wires(size);
  auto heartbeats = makeHeartbeats(wires, size, kPatient);
  checkAllLive(heartbeats, milliseconds(50));
  wires.cut(gone);
  checkAllKnow(heartbeats, gone);
}

void fallSilent(int size, int gone) {
  Wires wires(size);
  checkAllKnow(makeHeartbeats(wires, size, kTimes, gone), gone);
}

/// Nothing comes from a rank for a while.
void comeBack(int size, int rank) {
  Wires wires(size);
  const auto heartbeats = makeHeartbeats(wires, size, kHasty);
  wires.mute(rank);
  checkAllKnow(heartbeats, rank);
  check(heartbeats[static_cast<std::size_t>(rank)]->gone() != rank, "a rank takes itself for gone");
  wires.mute(Heartbeat::kNobody);
  checkAllKnow(heartbeats, Heartbeat::kNobody);
}

/// A rank whose next beat is due in ten minutes forwards at once that another rank is silent, that
/// the beats of that rank come again, and that a connection has closed.
void forward(bool cut) {
  constexpr int kSize = 4;
  constexpr Heartbeat::Times kRare{std::chrono::minutes(10), std::chrono::minutes(20)};
  Wires wires(kSize);
  Heartbeat middle(wires.of(1), 1, kSize, kRare);
  middle.begin();
  const auto expect = [&](Beat beat, const std::string& what) {
    Beat received{};
    const auto message =
        wires.of(2).receive(switchml_delegate::kHeartbeats, &received, sizeof received);
    const auto error = thrown([&] { message.wait(kEnough); });
    check(error.empty() && received.gone == beat.gone && received.closed == beat.closed,
          what + ": " + error);
  };
  const auto send = [&](Beat beat) {
    const auto message = wires.of(0).send(switchml_delegate::kHeartbeats, &beat, sizeof beat);
    check(message.wait(kEnough), "it is received");
  };
  expect({Heartbeat::kNobody, 0}, "all live at first");
  for (const int gone : {3, 0, Heartbeat::kNobody}) {
    send({gone, 0});
    expect({gone, 0}, "a silent rank, or none");
  }
  if (cut) {
    wires.cut(0);
  } else {
    send({3, 1});
  }
  expect({cut ? 0 : 3, 1}, "a closed connection");
}

void live() {
  Wires wires(3);
  checkAllLive(makeHeartbeats(wires, 3, kTimes), 3 * kTimes.silence / 2);
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
  checkAllLive(makeHeartbeats(wires, 3, kTimes), 3 * kTimes.silence);
}

/// A beat that arrives after a rank has left is not written to its memory: a sanitizer would report
/// it.
void leave() {
  Wires wires(2);
  auto heartbeats = makeHeartbeats(wires, 2, kPatient);
  std::this_thread::sleep_for(milliseconds(50));
  heartbeats[0]->close();
  heartbeats[0].reset();
  std::this_thread::sleep_for(milliseconds(50));
  check(heartbeats[1]->gone() == Heartbeat::kNobody, "the connection is there");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const auto ofRank = what == "closed" ? closeConnection : what == "silent" ? fallSilent : comeBack;
  if (what == "closed" || what == "silent" || what == "back") {
    inThreads(3, [&](std::size_t number) {
      const auto size = 2 + static_cast<int>(number);
      inThreads(2 + number, [&](std::size_t rank) { ofRank(size, static_cast<int>(rank)); });
    });
  } else if (what == "news") {
    inThreads(2, [](std::size_t number) { forward(number == 0); });
  } else if (what == "alive") {
    live();
  } else if (what == "stopped") {
    stop();
  } else if (what == "left") {
    leave();
  } else {
    check(false, "usage: heartbeat closed|silent|back|news|alive|stopped|left");
  }
  std::puts("ok");
  return 0;
}
