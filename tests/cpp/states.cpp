// States of the delegate's classes, one by one, with a context of one rank.
#include <switchml/context.h>

#include <cstdint>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "SwitchMLAllreduce.hpp"
#include "check.hpp"
#include "sum/pending_jobs.hpp"
#include "sum/runtime.hpp"
#include "threads.hpp"
#include "wires.hpp"

namespace {

using namespace switchml_delegate;
using State = Library::State;

void states() {
  static auto& state = *new DelegationState(nullptr);  // its values stay for good
  const auto is = [](DelegationState::Kind kind, const std::string& why,
                     const std::string& newest) {
    const auto& now = state.get();
    return now.kind == kind && now.reason == why && now.failure == newest;
  };
  state.suspend("hung");
  check(is(DelegationState::Kind::kSuspended, "hung", "hung"), "a group goes over Gloo");
  state.resume();
  check(is(DelegationState::Kind::kDelegating, "", "hung"), "it has returned");
  check(state.fail("lost"), "first");
  check(!state.fail("late"), "second");
  state.resume();
  check(is(DelegationState::Kind::kBroken, "lost", "hung"), "only a suspended one resumes");
  static const auto& child = *new DelegationState(&state);
  check(child.broken(), "that of the parent");
  state.renew();
  check(is(DelegationState::Kind::kDelegating, "", "hung"), "a new group");
}

void turns() {
  Order order;
  static auto& state = *new DelegationState(nullptr);  // its values stay for good
  check(order.take(3) == 0 && order.take(1) == 3, "numbers");
  auto second = std::async(std::launch::async, [&] { order.await(1, state); });
  order.await(0, state);
  order.pass();
  check(second.wait_for(kEnough) == std::future_status::ready, "its turn");
  auto last = std::async(std::launch::async, [&] { order.await(3, state); });
  state.fail("lost");
  order.wake();
  check(last.wait_for(kEnough) == std::future_status::ready, "it will have none");
  state.renew();
  order.skip();
  order.await(order.take(1), state);
}

/// The threads behind a job that has failed are not let in, in whatever order they wake.
void outOfTurn() {
  static auto& runtime = *new Runtime(nullptr);  // its values stay for good
  wires::Wires wires(2);
  FailoverCounters counters;
  Delegation group;
  group.failover = std::make_shared<Failover>(
      wires.of(0), 0, 2, kEnough,
      Failover::Callbacks{[](const std::string& /*reason*/) {},
                          [](void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) {},
                          [](const std::string& /*line*/) {}},
      counters);
  runtime.state.fail("lost");
  PendingJobs jobs(runtime, group, 1, 1, {});
  constexpr auto kTooMuch = std::uint64_t{1} << 50U;  // there is no memory to admit such a job
  const auto error = thrown([&jobs] {
    jobs.submit({"allreduce", nullptr, kTooMuch, Element::kInt32, nullptr});
  });
  check(error == std::string(kAllreduceFailed) + "lost", error);
}

/// Answers to the last packets of a rank may arrive for ten seconds after it was found to be gone.
void lastAnswers() {
  using std::chrono::seconds;
  GoneRank gone;
  const auto begun = Library::Clock::now();
  check(!gone.note(Heartbeat::kNobody, begun), "nobody is gone");
  const auto ended = begun + seconds(30);
  check(!gone.note(1, ended) && gone.rank() == 1, "it has just ended");
  check(!gone.note(1, ended + seconds(9)), "answers may be on their way");
  check(gone.note(1, ended + seconds(10)), "none will arrive");
  check(!gone.note(Heartbeat::kNobody, ended + seconds(11)), "it is back");
  check(!gone.note(1, ended + seconds(12)), "it has just ended again");
}

void setFault(const char* fault, const char* milliseconds) {
  setenv("FAULT", fault, 1);
  setenv("FAULT_MS", milliseconds, 1);
}

/// Other code stops the context while a job is submitted to it. The thread of that context is late,
/// and does not stop the next one while that starts.
void startBehindALateThread(Library& library, const switchml::Config& config) {
  check(library.start(config, kEnough).empty(), "started");
  setFault("slow-job", "300");
  std::thread submitting([&library] {
    const auto word = std::make_shared<int>(0);
    Library::JobPtr job;
    library.submit(word, word, 1, Element::kInt32, job);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until it is in the library
  switchml::Context::GetInstance().Stop();
  library.stop(library.epoch());
  setFault("slow-end", "500");
  check(library.start(config, kEnough).empty() && contextRuns(), "started behind it");
  submitting.join();
  library.stop(library.epoch());
  check(library.stoppedWithin(kEnough, library.epoch()), "stopped");
}

/// The process exits during a start.
void retireInStart(Library& library, const switchml::Config& config) {
  setFault("slow-end", "300");
  auto start = std::async(std::launch::async, [&] { return library.start(config, kEnough); });
  until(contextRuns);
  check(library.state() == State::kStarting && !library.retire({}), "a stop waits for the start");
  check(library.retire(kEnough) && !contextRuns(), "it was stopped after its start");
  check(!start.get().empty() && library.state() == State::kStopped, "a start that was in vain");
  check(!library.start(config, kEnough).empty(), "no other one");
  unsetenv("FAULT");
}

void starts() {
  switchml::Config config;
  check(config.LoadFromFile("switchml.cfg"), "a configuration");
  static auto& library = *new Library(nullptr);  // which its threads outlive
  check(library.state() == State::kNotStarted && library.epoch() == 0, "not started");
  check(library.refusal().empty() && !library.lost(), "nothing is in its way");
  check(library.start(config, kEnough).empty() && library.epoch() == 1, "started");
  check(switchml::start_limit == Library::startLimit().count(), "its limit");
  library.stop(0);
  check(library.state() == State::kRunning, "a stop for no start");
  check(Library(&library).lost(), "a child has lost it");
  Library::JobPtr job;
  const auto submit = [&] {
    const auto word = std::make_shared<int>(0);
    return std::pair{library.submit(word, word, 1, Element::kInt32, job), std::weak_ptr<int>(word)};
  };
  const auto [why, kept] = submit();
  job = nullptr;
  library.release();
  check(why.empty() && !kept.expired(), "memory that it may read");
  library.stop(1);
  check(!submit().first.empty() && job == nullptr, "no more jobs");
  check(library.stoppedWithin(kEnough, 1) && library.state() == State::kStopped, "stopped");
  library.release();
  check(kept.expired(), "memory is let go once it has stopped");
  check(library.start(config, kEnough).empty(), "started again");
  library.stop(1);
  check(library.state() == State::kRunning && library.epoch() == 2, "a stop that comes late");
  check(library.stoppedWithin(std::chrono::milliseconds(0), 1), "the first start has stopped");
  const auto memory = submit().second;
  check(library.wait(job, Library::Clock::now() + kEnough, [] { return false; }) ==
                Library::End::kFinished &&
            Library::epochOf(job) == 2,
        "its end");
  job = nullptr;
  check(memory.expired(), "memory is let go once the job has finished");
  library.stop(2);
  check(library.stoppedWithin(kEnough, 2), "stopped again");
  startBehindALateThread(library, config);
  retireInStart(library, config);
}

/// Two callers end the same group, again and again.
void leaves() {
  static const int context = 0;
  Delegation group{};
  group.contexts = {&context};
  constexpr int kRounds = 5000;
  std::atomic<int> arrived{0};
  const auto leaveAll = [&](bool first) {
    for (int round = 1; round <= kRounds; ++round) {
      if (first) {
        for (; arrived < 2 * round - 1; std::this_thread::yield()) {
        }
        process().runtime.begin(group);
      }
      ++arrived;
      for (; arrived < 2 * round; std::this_thread::yield()) {
      }
      delegate()->leave(&context);
    }
  };
  auto other = std::async(std::launch::async, leaveAll, false);
  leaveAll(true);
  other.get();
  check(!delegate()->delegates(&context), "it has ended");
}

}  // namespace

bool contextRuns() {
  return switchml::Context::GetInstance().GetContextState() == switchml::Context::RUNNING;
}

void checkStates() {
  leaves();
  states();
  turns();
  outOfTurn();
  lastAnswers();
  starts();
}
