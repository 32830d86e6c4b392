// The end of a process, each case in a child: the order of the steps, their limits, and what
// threads of calls do meanwhile. Prints ok.
#include "base/shutdown.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "check.hpp"

namespace {

using std::chrono::milliseconds;
// ThreadSanitizer puts off a signal until after fflush().
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PUTS_OFF_SIGNALS true
#endif
#endif
#ifndef PUTS_OFF_SIGNALS
#define PUTS_OFF_SIGNALS false
#endif

using switchml_delegate::Shutdown;
using switchml_delegate::ShutdownLimits;

constexpr int kCode = 7;
constexpr std::uint64_t kNext = 10;  // number of the next call
constexpr milliseconds kShort{50};
/// Limits of which the process must reach none, except those that a case shortens.
constexpr ShutdownLimits kLong{kEnough, kEnough, kEnough, kEnough};

int events = -1;  // pipe of the child, which the parent reads

void note(const std::string& event) {
  check(write(events, event.data(), event.size()) == static_cast<ssize_t>(event.size()),
        "an event");
}

/// What a child has to end.
struct Made final : Shutdown::Participant {
  std::uint64_t nextSequence() noexcept override {
    note("next ");
    return kNext;
  }
  void writeLastMetrics(milliseconds limit) noexcept override {
    note("metrics ");
    check(limit == ofMetrics, "the limit of the metrics");
  }
  bool ownsContext() noexcept override { return owns; }
  bool stop(milliseconds limit) noexcept override {
    note("stop ");
    check(limit == ofStop, "the limit of the stop");
    onStop();
    return stops;
  }

  bool owns = true;
  bool stops = true;
  milliseconds ofMetrics = kLong.metrics;
  milliseconds ofStop = kLong.stop;
  std::function<void()> onStop = [] {};
};

Made made;
bool hasMemory = true;
std::atomic<Shutdown*> shutdown_{nullptr};  // never destroyed, as in the delegate

Shutdown::Participant* toEnd() noexcept { return hasMemory ? &made : nullptr; }

Shutdown& shutdownWith(const ShutdownLimits& limits = kLong) {
  shutdown_ = new Shutdown(toEnd, limits);
  return *shutdown_;
}

/// Runs a case in a child, which must end with kCode. Returns its events.
std::string eventsOf(void (*run)()) {
  int ends[2];
  check(pipe(ends) == 0, "a pipe");
  std::fflush(nullptr);
  const auto child = fork();
  if (child == 0) {
    close(ends[0]);
    events = ends[1];
    // Registered first, so it runs last: as the destructors of the library's static objects.
    std::atexit([] { note("later "); });
    run();
    std::exit(kCode);
  }
  close(ends[1]);
  std::string found;
  char letter = 0;
  while (read(ends[0], &letter, 1) == 1) {
    found += letter;
  }
  close(ends[0]);
  int status = 0;
  check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == kCode,
        "the child's own exit code, not " + std::to_string(status) + ", after " + found);
  return found;
}

void expect(const char* name, const std::string& expected, void (*run)()) {
  const auto found = eventsOf(run);
  check(found == expected, std::string(name) + ": " + found);
}

/// Starts a thread that makes a call and comes back from it, as to Python, when the context stops.
void callUntilStop(std::uint64_t sequence, void (*back)()) {
  static auto& begun = *new std::promise<void>;  // for as long as the thread
  static auto& stopped = *new std::promise<void>;
  std::thread([sequence, back] {
    {
      const auto barrier = shutdown_.load()->barrier(sequence);
      begun.set_value();
      stopped.get_future().wait();
    }
    back();
  }).detach();
  begun.get_future().wait();
  made.onStop = [] {
    stopped.set_value();
    std::this_thread::sleep_for(kShort);  // a thread that is not kept comes back meanwhile
  };
}

void testOrder() {
  expect("without metrics or a context", "later ", [] { shutdownWith(); });
  expect("metrics alone", "metrics later ", [] { shutdownWith().metricsStarted(); });
  expect("a context", "next metrics stop later ", [] { shutdownWith().contextStarts(); });
  expect("before and after the start", "next metrics stop later ", [] {
    auto& own = shutdownWith();
    own.contextStarts();
    own.contextStarts();
  });
  for (const bool metricsFirst : {false, true}) {
    static bool first;
    first = metricsFirst;
    expect("both, once", "next metrics stop later ", [] {
      auto& own = shutdownWith();
      first ? own.metricsStarted() : own.contextStarts();
      first ? own.contextStarts() : own.metricsStarted();
    });
  }
}

/// The program has written to a stream, and the process ends without the later handlers.
void testEndsHere() {
  static void (*const writes)() = [] { std::fputs("flushed ", fdopen(events, "w")); };
  expect("a context that does not stop", "next metrics stop flushed ", [] {
    dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);  // for the warning
    auto limits = kLong;
    made.ofMetrics = limits.metrics = kShort;
    made.ofStop = limits.stop = 2 * kShort;
    made.stops = false;
    shutdownWith(limits).contextStarts();
    writes();
  });
  expect("a forked child", "next metrics flushed ", [] {
    shutdownWith().contextStarts();
    inChild(
        [] {
          made.owns = false;
          writes();
          std::exit(kCode);
        },
        kCode);
    std::_Exit(kCode);
  });
  expect("a forked child without memory", "flushed ", [] {
    shutdownWith().contextStarts();
    inChild(
        [] {
          hasMemory = false;
          writes();
          std::exit(kCode);
        },
        kCode);
    std::_Exit(kCode);
  });
  expect("a forked child of a process without a context", "metrics later ", [] {
    shutdownWith().metricsStarted();
    inChild([] { std::exit(kCode); }, kCode);
    std::_Exit(kCode);
  });
}

/// A thread is inside of a stream and keeps its lock: the flush waits within its limit.
void testFlush() {
  expect("a stream that another thread keeps", "next metrics ", [] {
    auto limits = kLong;
    limits.flush = kShort;
    made.owns = false;
    shutdownWith(limits).contextStarts();
    static auto& keeps = *new std::promise<void>;
    std::thread([] {
      flockfile(stdout);
      keeps.set_value();
      pause();
    }).detach();
    keeps.get_future().wait();
  });
}

void testBarrier() {
  expect("a call before the exit", "next metrics stop later ", [] {
    shutdownWith().contextStarts();
    callUntilStop(UINT64_MAX, std::abort);
  });
  expect("a call of a number that was taken before the exit", "next metrics stop late later ", [] {
    shutdownWith().contextStarts();
    std::atexit([] {
      callUntilStop(kNext - 1, std::abort);
      made.onStop();
      note("late ");
    });
    shutdown_.load()->contextStarts();  // runs before that handler
  });
  expect("calls that begin after the exit", "next metrics stop late later ", [] {
    shutdownWith();
    std::atexit([] {
      { const auto barrier = shutdown_.load()->barrier(kNext); }
      { const auto barrier = shutdown_.load()->barrier(); }
      note("late ");
    });
    shutdown_.load()->contextStarts();
  });
  expect("a call without an exit", "back later ", [] {
    shutdownWith();
    { const auto barrier = shutdown_.load()->barrier(); }
    note("back ");
  });
  expect("a thread for which the exit waits", "next metrics stop ", [] {
    auto limits = kLong;
    limits.held = kShort;
    shutdownWith(limits).contextStarts();
    static auto& begun = *new std::promise<void>;
    static auto& stopped = *new std::promise<void>;
    static auto& caller = *new std::thread([] {
      const auto barrier = shutdown_.load()->barrier();
      begun.set_value();
      stopped.get_future().wait();
    });
    begun.get_future().wait();
    made.onStop = [] {
      stopped.set_value();
      caller.join();
    };
  });
}

}  // namespace

int main() {
  testOrder();
  testEndsHere();
  if (!PUTS_OFF_SIGNALS) {
    testFlush();
  }
  testBarrier();
  std::puts("ok");
}
