#include "SwitchMLAllreduce.hpp"

#include <switchml/context.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "SwitchMLAgreement.hpp"
#include "SwitchMLConfig.hpp"
#include "SwitchMLCrossover.hpp"
#include "SwitchMLFailover.hpp"
#include "SwitchMLJobs.hpp"
#include "SwitchMLMetrics.hpp"
#include "SwitchMLPackets.hpp"
#include "SwitchMLProbe.hpp"
#include "SwitchMLPulse.hpp"
#include "SwitchMLRing.hpp"
#include "SwitchMLThreads.hpp"

#ifndef SWITCHML_TORCH_FLAGS
#define SWITCHML_TORCH_FLAGS ""
#endif

namespace switchml_torch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
constexpr std::chrono::milliseconds kController = std::chrono::seconds(3);
constexpr std::chrono::milliseconds kProbe = std::chrono::seconds(30);
constexpr std::chrono::milliseconds kMeasured = std::chrono::seconds(1);
constexpr std::chrono::milliseconds kStopAfterFailure = std::chrono::seconds(1);
constexpr std::chrono::milliseconds kStopAtExit = std::chrono::seconds(5);
constexpr std::chrono::milliseconds kStartAgain = std::chrono::seconds(45);
constexpr std::chrono::milliseconds kQuiet = std::chrono::seconds(1);
// The switch's answers to the last packets of a rank that has ended are there by then.
constexpr std::chrono::milliseconds kLastAnswers = std::chrono::seconds(10);
constexpr Pulse::Times kBeating{std::chrono::seconds(5), std::chrono::minutes(1)};
constexpr const char* kOther = "another process group delegates";
constexpr const char* kForked = "SwitchML was started before this process was forked";

enum Fallback : std::size_t { kGroup, kOp, kDtype, kTensors, kNumel, kFallbacks };
constexpr std::array<const char*, kFallbacks> kFallbackNames{"group", "op", "dtype", "tensors",
                                                             "numel"};

/// Settings of a delegating group. A value never changes.
struct Delegation {
  std::vector<const void*> contexts;
  std::uint64_t minNumel;
  std::uint64_t chunkNumel;
  std::chrono::milliseconds timeout;  // timeout of the group when it was made
  std::chrono::milliseconds longest;  // largest limit of a job
  std::uint16_t workers;
  bool quantizes;
  Choice dtypes;
  Choice ops;
  Quantization quantization;
  std::size_t rank;
  std::uint64_t firstTicket;
  std::shared_ptr<Failover> failover;  // null where the group has none
  std::shared_ptr<Pulse> pulse;        // null where the library itself learns that a rank is gone
};

/// The sum of `data` over all ranks in place of it. `owner` keeps the memory for as long as the
/// library may write to it. `then` is called with the sum.
struct Sum {
  const char* what;
  void* data;
  std::uint64_t numel;
  Element element;
  std::shared_ptr<void> owner;
  std::function<void()> then;
  bool saturated = false;  // what the library has no numbers for was replaced

  std::uint64_t bytes() const { return numel * sizeof(std::int32_t); }
};

/// Jobs that the library has, by their tickets. A list has another layout in each ABI of the C++
/// library, and the linker would mix its functions with those of torch's.
struct Submitted {
  Sum sum;
  std::shared_ptr<Jobs::Entry> entry;  // null where the library does not have it
  std::shared_ptr<Jobs> jobs;          // of the start of the context that has it
};
using SubmittedJobs = std::map<std::uint64_t, Submitted>;

/// The newest of some values, which is read without a lock. Each value stays for good: a reader may
/// still look at it.
template <typename Value>
class Newest {
 public:
  Newest() = default;
  Newest(const Newest& other) : link_(other.link_.load()) {}
  Newest& operator=(const Newest&) = delete;

  Value get() const {
    const auto* const link = link_.load(std::memory_order_acquire);
    return link == nullptr ? Value{} : link->value;
  }
  /// True where there is none, or an empty one.
  bool empty() const {
    const auto* const link = link_.load(std::memory_order_acquire);
    return link == nullptr || link->value.empty();
  }
  void set(Value value) {
    link_.store(new const Link{std::move(value), link_.load()}, std::memory_order_release);
  }

 private:
  struct Link {
    Value value;
    const Link* earlier;
  };
  std::atomic<const Link*> link_{nullptr};
};

/// The outcome of an agreement between the ranks of a group.
struct Outcome {
  int size = 0;
  std::string decision;   // where allreduces go, and why
  std::string reason;     // for which they stay with Gloo; empty where they do not
  std::string terms;      // empty where they stay with Gloo
  std::string step;       // of the agreement, that was refused: the first on this rank, or on any
  std::string objection;  // of this rank itself
  std::string offer;      // the terms of this rank, where it was able
  std::vector<Timing> timings;  // that the ranks have measured

  std::string line() const {
    return size == 0
               ? ""
               : text("process group of ", size, size == 1 ? " rank: " : " ranks: ", decision);
  }
};

/// The state of the one SwitchML context. What is atomic, or Newest, is read without the mutex.
struct Process {
  Process() = default;
  explicit Process(const Process& parent);

  const pid_t pid = getpid();
  /// State of the process that this one was forked from.
  const Process* const parent = nullptr;
  /// True: the parent had used the library, whose threads are not here.
  const bool forked = false;

  std::atomic<const Delegation*> delegation{nullptr};
  std::array<std::atomic<std::uint64_t>, kFallbacks> fallbacks{};
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> nextTicket{0};
  std::atomic<bool> used{false};  // the library's context
  std::atomic<bool> counts{false};
  Newest<std::string> broken;
  Newest<std::string> suspended;  // why its group goes on over Gloo
  Newest<std::string> failure;    // the newest after which a group did
  Failover::Counters failover;
  Newest<Outcome> group;
  Newest<std::string> filled;
  Threads threads;
  metrics::Times times;                  // of allreduces that SwitchML has summed
  std::atomic<std::uint64_t> waited{0};  // nanoseconds, for jobs of the library
  Newest<metrics::Labels> labels;

  std::mutex mutex;
  std::condition_variable turnChanged;
  std::uint64_t turn = 0;
  bool claimed = false;
  bool started = false;   // it was, once
  bool stopping = false;  // since it was started last
  bool warned = false;
  bool joined = false;
  std::shared_ptr<Jobs> jobs = std::make_shared<Jobs>();  // since the context was started last
  SubmittedJobs lost;
  // All there have been: a reader without the mutex may still look at one.
  std::vector<std::unique_ptr<const Delegation>> delegations;
  std::unique_ptr<metrics::Writer> counters;
};

/// A thread of the parent may have held its mutex when this process was forked, and will never give
/// it back. So a child takes from it what is read without the mutex, and begins anew with the rest.
Process::Process(const Process& before)
    : parent(&before),
      forked(before.forked || before.used),
      delegation(before.delegation.load()),
      calls(before.calls.load()),
      bytes(before.bytes.load()),
      nextTicket(before.nextTicket.load()),
      broken(before.broken),
      suspended(before.suspended),
      failure(before.failure),
      group(before.group),
      filled(before.filled) {
  for (std::size_t i = 0; i < kFallbacks; ++i) {
    fallbacks[i] = before.fallbacks[i].load();
  }
}

/// Never destroyed: works, and the library's threads, may outlive the destruction of statics.
std::atomic<Process*> newest{nullptr};

Process& process() {
  auto* found = newest.load();
  while (found == nullptr || found->pid != getpid()) {
    auto made = found == nullptr ? std::make_unique<Process>() : std::make_unique<Process>(*found);
    if (newest.compare_exchange_strong(found, made.get())) {
      return *made.release();
    }
  }
  return *found;
}

/// State for its atomic members: a call to the system costs more than they do. In a child it may
/// still be the parent's, from which the child's is made.
Process& sharedState() {
  auto* const found = newest.load(std::memory_order_acquire);
  return found == nullptr ? process() : *found;
}

/// Packets of this process; none before the context has started.
Packets packets(const Process& state) {
  if (!state.counts.load(std::memory_order_acquire)) {
    Packets none;
    none.known = packetsOf(switchml::Stats(), 0).known;
    return none;
  }
  return packetsOf(switchml::Context::GetInstance().GetStats(), 0);
}

void say(const std::string& line) { std::fprintf(stderr, "switchml: %s\n", line.c_str()); }

#ifdef SWITCHML_TORCH_DEBUG
template <typename... Parts>
void debug(const Parts&... parts) {
  say(text("debug: ", parts...));
}
#else
template <typename... Parts>
void debug(const Parts&...) {}
#endif

// ---- what is seen from outside ------------------------------------------------------------------

/// The counters of this process, for a file that monitoring reads.
std::string metricsPage(const Process& state, bool last) {
  const auto* const now = !state.broken.empty()                ? "failed"
                          : last                               ? "ended"
                          : state.delegation.load() == nullptr ? "gloo"
                          : !state.suspended.empty()           ? "failover"
                                                               : "delegating";
  metrics::Page page(state.labels.get());
  page.counter("switchml_allreduces_total", "Allreduces that SwitchML has summed.",
               state.calls.load(std::memory_order_relaxed));
  page.counter("switchml_bytes_total", "Bytes of these allreduces on this rank.",
               state.bytes.load(std::memory_order_relaxed));
  page.begin("switchml_gloo_allreduces_total", "Allreduces that were left to Gloo.", "counter");
  for (std::size_t i = 0; i < kFallbacks; ++i) {
    page.sample("switchml_gloo_allreduces_total", {{"reason", kFallbackNames[i]}},
                state.fallbacks[i].load(std::memory_order_relaxed));
  }
  page.histogram("switchml_allreduce_seconds", "Times of allreduces that SwitchML has summed.",
                 state.times);
  page.counter("switchml_waited_seconds_total",
               "Time that allreduces waited for the switch and other ranks.",
               1e-9 * static_cast<double>(state.waited.load(std::memory_order_relaxed)));
  if (const auto counted = packets(state); counted.known) {
    page.counter("switchml_packets_sent_total", "Packets that were sent.", counted.sent);
    page.counter("switchml_packets_answered_total", "Answers of the switch.", counted.answers);
    page.counter("switchml_packets_wrong_total", "Packets that came and were no answer.",
                 counted.wrong);
    page.counter("switchml_timeouts_total", "Timeouts; after each, packets were sent again.",
                 counted.timeouts);
  }
  const auto& failover = state.failover;
  page.counter("switchml_failovers_total", "Failures after which the ranks went on over Gloo.",
               failover.failovers.load(std::memory_order_relaxed));
  page.counter("switchml_returns_total", "Failures after which they have returned to SwitchML.",
               failover.returns.load(std::memory_order_relaxed));
  page.counter("switchml_failover_allreduces_total", "Allreduces that went over Gloo then.",
               failover.calls.load(std::memory_order_relaxed));
  page.counter("switchml_failover_seconds_total", "Time over Gloo after these failures.",
               failover.seconds());
  page.begin("switchml_state", "1 for what this rank does now: see the label.", "gauge");
  for (const char* const one : {"delegating", "gloo", "failover", "failed", "ended"}) {
    page.sample("switchml_state", {{"state", one}}, one == std::string(now) ? 1 : 0);
  }
  return page.str();
}

/// Writes the counters for the last time.
void endMetrics(int /*status*/, void* /*argument*/) {
  auto& state = process();
  std::unique_lock<std::mutex> lock(state.mutex);
  const auto writer = std::move(state.counters);
  lock.unlock();
}

/// Called with the mutex held, when a group has been made. A wrong value has been told, unless the
/// rank could not delegate anyway.
void startMetrics(Process& state, int rank) {
  metrics::Target target;
  if (state.counters || state.forked || !target.read().empty() || target.directory.empty()) {
    return;
  }
  try {
    state.counters = std::make_unique<metrics::Writer>(
        metrics::filePath(target.directory, rank), std::chrono::seconds(target.seconds),
        [&state](bool last) { return metricsPage(state, last); },
        [](const std::string& why) {
          say(text("warning: the metrics are not written, and will be tried again: ", why));
        });
    on_exit(endMetrics, nullptr);
  } catch (const std::system_error& error) {
    say(text("warning: the metrics are not written: ", error.what()));
  }
}

// ---- the end of the context ---------------------------------------------------------------------

/// Runs where it may block for ever: a backend's start and stop have no timeout.
template <typename Function>
void detach(Function function) {
  std::thread(std::move(function)).detach();
}

void stopContext(bool idle) {
  auto& context = switchml::Context::GetInstance();
  if (context.GetContextState() != switchml::Context::RUNNING) {
    return;
  }
  if (idle) {
    // The library's stop hangs or aborts when it meets a worker thread between the end of a job and
    // its wait for the next one.
    context.WaitForAllJobs();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  context.Stop();
}

bool stoppedWithin(std::chrono::milliseconds limit) {
  auto& context = switchml::Context::GetInstance();
  const auto deadline = Clock::now() + limit;
  while (context.GetContextState() != switchml::Context::STOPPED) {
    if (Clock::now() >= deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Limit of something that a rank does between two answers to the others, who wait for each answer
/// as long as the group's timeout. It does three such things at most.
std::chrono::milliseconds between(std::chrono::milliseconds limit,
                                  std::chrono::milliseconds timeout) {
  return std::min(limit, timeout / 4);
}

/// Called with the mutex held. Nothing is submitted from here on, and the context is stopped: a job
/// that is still in the library must neither read nor write the caller's tensor any more, since
/// another rank that comes late would take what it finds there for this rank's values.
void stop(Process& state) {
  state.turnChanged.notify_all();
  state.jobs->giveUp();
  if (state.started && !state.stopping) {
    state.stopping = true;
    try {
      detach([idle = state.jobs->unfinished == 0] { stopContext(idle); });
    } catch (const std::system_error&) {  // no thread can be had: the process ends without the stop
    }
  }
}

/// Called with the mutex held. All calls from here on fail. `end` comes before the stop, which
/// wakes those that wait for the library: their reason would be another.
void disable(Process& state, const std::string& why, void (Failover::*end)(const std::string&)) {
  const bool first = state.broken.empty();
  if (first) {
    state.broken.set(why);
  }
  const auto* const group = state.delegation.load();
  if (group != nullptr && group->failover && !state.forked) {
    ((*group->failover).*end)(why);
  }
  if (first) {
    stop(state);
  }
}

/// The context is stopped, and its group goes on without it.
void suspend(Process& state, const std::string& why) {
  std::lock_guard<std::mutex> lock(state.mutex);
  state.suspended.set(why);
  state.failure.set(why);
  stop(state);
}

void fail(Process& state, const std::string& why) {
  if (state.broken.empty()) {
    const auto counted = packets(state).words();
    say(text("error: ", why, counted.empty() ? "" : " (" + counted + ")",
             "; this rank uses SwitchML no more"));
  }
  disable(state, why, &Failover::giveUp);
}

/// Registered after the context was made, so it runs before the context is destroyed. The process
/// ends here where that would hang, and in a forked child, which has none of the library's threads.
void atExit(int status, void*) {
  endMetrics(status, nullptr);
  auto& state = process();
  if (!state.forked) {
    std::unique_lock<std::mutex> lock(state.mutex);
    disable(state, "the process is exiting", &Failover::close);
    if (const auto* const group = state.delegation.load(); group != nullptr && group->pulse) {
      group->pulse->close();
    }
    lock.unlock();
    if (stoppedWithin(kStopAtExit)) {
      return;
    }
    say("warning: the SwitchML context did not stop");
  }
  std::fflush(nullptr);
  _exit(status);
}

[[noreturn]] void throwBroken(const Process& state) {
  throw std::runtime_error(text("SwitchML allreduce failed: ", state.broken.get()));
}

// ---- what this rank offers to the others -------------------------------------------------------

/// Called with the process's mutex held. Why a context that has been used cannot be started anew;
/// empty where it can, or was not used.
std::string obstacleToStart(const Process& state) {
  auto& context = switchml::Context::GetInstance();
  if (!state.used) {
    return "";
  }
  if (!startsAgain(context.GetConfig().general_)) {
    return "the client library starts once in a process, without its mend `restart`";
  }
  return context.GetContextState() == switchml::Context::STOPPED
             ? ""
             : "the SwitchML context has not stopped";
}

/// Called with the process's mutex held.
Offer makeOffer(const Process& state, Loaded& loaded, std::size_t contexts, int rank, int size,
                Settings& settings) {
  auto& config = loaded.config;
  if (isSet("SWITCHML_DISABLE")) {
    return Offer::refuse("SWITCHML_DISABLE is set");
  }
  if (state.forked) {
    return Offer::refuse(kForked);
  }
  if (state.claimed && state.broken.empty() && !state.suspended.empty()) {
    return Offer::busy(kOther);  // which returns
  }
  for (const auto* why : {&state.broken, &state.suspended}) {
    if (!why->empty()) {
      const auto stays = state.claimed ? "" : obstacleToStart(state);
      if (state.claimed || !stays.empty()) {
        return Offer::refuse(
            text("SwitchML was given up: ", why->get(), stays.empty() ? "" : "; ", stays));
      }
    }
  }
  if (state.started) {
    config = switchml::Config(switchml::Context::GetInstance().GetConfig());
    if (config.general_.num_workers > size) {
      const auto why =
          text("the group has ", size, " of the ", config.general_.num_workers, " workers");
      return state.claimed ? Offer::busy(why) : Offer::refuse(why);
    }
  }
  if (state.claimed) {
    return Offer::busy(kOther);
  }
  if (contexts == 0) {
    return Offer::refuse("the group has no Gloo device");
  }
  if (const auto wrong = settings.read(); !wrong.empty()) {
    return Offer::refuse(wrong, "in the environment");
  }
  if (!state.started) {
    if (auto offer = loadConfig(loaded, rank, size); !offer.able()) {
      return offer;
    }
  }
  const auto& general = config.general_;
  const auto* const source = state.started ? "SwitchML runs with" : "switchml.cfg has";
  if (general.num_workers != size) {
    return Offer::refuse(text(source, " num_workers = ", general.num_workers, ", the group has ",
                              size, size == 1 ? " rank" : " ranks"),
                         loaded.place);
  }
  if (general.rank != rank) {
    return Offer::refuse(text(source, " rank = ", general.rank, ", the process has rank ", rank),
                         loaded.place);
  }
  if (!state.started) {
    if (auto offer = fillInHost(loaded); !offer.able()) {
      return offer;
    }
  }
  if (const auto wrong = objection(config); !wrong.empty()) {
    return Offer::refuse(wrong, loaded.place);
  }
  return {'y', termsOf(config, settings), "",
          state.started && !state.stopping ? Offer::kRuns : Offer::kStopped};
}

// ---- the context --------------------------------------------------------------------------------

/// Result or error of `function`, or null where it takes longer than `limit`. It goes on then.
template <typename Function>
std::unique_ptr<std::string> resultWithin(std::chrono::milliseconds limit, Function function) {
  const auto promise = std::make_shared<std::promise<std::string>>();
  auto answer = promise->get_future();
  try {
    detach([promise, own = std::move(function)]() mutable {
      try {
        promise->set_value(own());
      } catch (const std::exception& error) {
        promise->set_value(error.what());
      }
    });
  } catch (const std::system_error& error) {
    return std::make_unique<std::string>(error.what());
  }
  return answer.wait_for(limit) == std::future_status::ready
             ? std::make_unique<std::string>(answer.get())
             : nullptr;
}

/// The library ends the process, or waits for ever, where its controller cannot be reached.
Offer reachController(const switchml::Config& config, const std::string& place,
                      std::chrono::milliseconds timeout) {
  const auto& general = config.general_;
  const auto limit = between(kController, timeout);
  const auto why =
      resultWithin(limit + limit / 4,
                   [host = general.controller_ip_str, port = general.controller_port,
                    deadline = Clock::now() + limit] { return unreachable(host, port, deadline); });
  return why && why->empty()
             ? Offer()
             : Offer::refuse(text("the controller at ", general.controller_ip_str, ":",
                                  general.controller_port, " cannot be reached: ",
                                  why ? *why : text("no answer within ", limit.count(), " ms")),
                             place);
}

/// Memory that is registered with the card must not part from it in a process that forks.
void makeForksSafe(const switchml::GeneralConfig& config) {
  if (usesSwitch(config) && config.backend == "rdma") {
    for (const char* name : {"RDMAV_FORK_SAFE", "RDMAV_HUGEPAGES_SAFE"}) {
      setenv(name, "1", /*overwrite=*/0);
    }
  }
}

/// Threads for one row, the caller's among them. The library's own have a processor each, which
/// they may poll on. Of what they leave, four are enough for what memory has to give.
unsigned threadsFor(unsigned processors, unsigned library) {
  constexpr unsigned kMost = 4;
  return processors > library ? std::min(processors - library, kMost) : 1;
}

/// Starts the context unless it runs, within `limit`.
Offer startContext(Process& state, const switchml::Config& config,
                   std::chrono::milliseconds limit) {
  std::unique_lock<std::mutex> lock(state.mutex);
  if (state.started && !state.stopping) {
    return {};
  }
  if (const auto why = obstacleToStart(state); !why.empty()) {
    return Offer::refuse(why);
  }
  lock.unlock();
  auto& context = switchml::Context::GetInstance();
  if (!state.used.exchange(true) && context.GetContextState() != switchml::Context::CREATED) {
    return Offer::refuse("other code of this process has used the SwitchML context");
  }
  makeForksSafe(config.general_);
  // Whoever comes second, the start or the end of its time, ends what was started: a context that
  // starts says that it runs before it does, and one that is stopped then ends the process.
  const auto other = std::make_shared<std::atomic<bool>>(false);
  const auto jobs = std::make_shared<Jobs>();
  const auto answer = resultWithin(limit, [jobs, own = config, other]() mutable {
    Jobs::start(jobs);
    const bool started = switchml::Context::GetInstance().Start(&own);
    if (other->exchange(true) && started) {
      stopContext(/*idle=*/true);
    }
    return started ? "" : "see its messages";
  });
  const auto why = !answer
                       ? text("the SwitchML context did not start within ", limit.count(), " ms")
                   : answer->empty() ? ""
                                     : "the SwitchML context did not start: " + *answer;
  lock.lock();
  if (why.empty() || !answer) {
    if (!state.started) {
      on_exit(atExit, nullptr);
    }
    state.started = true;
    state.stopping = !answer && !other->exchange(true);
    state.jobs = jobs;
  }
  if (!why.empty()) {
    jobs->giveUp();
    return Offer::refuse(why);
  }
  state.lost.clear();  // the library has let go of it
  if (!state.broken.empty()) {
    stop(state);  // the group, or the process, has ended meanwhile
  }
  if (!state.counts.exchange(true, std::memory_order_acq_rel)) {
    state.threads.start(threadsFor(processors(), config.general_.num_worker_threads) - 1);
  }
  return {};
}

/// Forgets the failure of an earlier group, whose context is about to be started anew.
void renew(Process& state) {
  std::lock_guard<std::mutex> lock(state.mutex);
  state.broken.set("");
  state.suspended.set("");
  state.turn = state.nextTicket;  // tickets that were lost are nobody's any more
}

/// Gives SwitchML up where the context cannot be used.
Offer usable(Process& state, Offer offer) {
  if (!offer.able()) {
    std::lock_guard<std::mutex> lock(state.mutex);
    fail(state, offer.words);
  }
  return offer;
}

/// Called when the context has stopped, before it is started anew. No packet of it is on its way to
/// the switch any more when this returns.
void awaitQuiet(const switchml::Config& config, std::chrono::milliseconds timeout) {
  if (usesSwitch(config.general_)) {
    std::this_thread::sleep_for(between(kQuiet, timeout));
  }
}

/// Stops a context that runs, before it is started anew with those of the other ranks.
Offer stopForOthers(Process& state, std::chrono::milliseconds timeout) {
  std::unique_lock<std::mutex> lock(state.mutex);
  if (state.started && !state.stopping) {
    const auto& config = switchml::Context::GetInstance().GetConfig();
    if (!startsAgain(config.general_)) {
      return Offer::refuse("its SwitchML context runs, and those of other ranks do not");
    }
    stop(state);
    lock.unlock();
    if (!stoppedWithin(between(kStopAtExit, timeout))) {
      return Offer::refuse("the SwitchML context has not stopped");
    }
    awaitQuiet(config, timeout);
  }
  return {};
}

/// Calls `function` with the begins and ends of parts of a row, some of them at once where the row
/// is long. `numel` counts what is `weight` elements each.
template <typename Function>
void inParts(std::uint64_t numel, std::uint64_t weight, const Function& function) {
  constexpr std::uint64_t kPart = 1U << 16U;   // the part that a core's own cache has room for
  constexpr std::uint64_t kShort = 4 * kPart;  // to wake a thread takes longer
  const auto size = numel * weight < kShort ? numel : std::max<std::uint64_t>(kPart / weight, 1);
  process().threads.share(numel, size, function);
}

/// The least magnitude that the library has no numbers for.
constexpr float kMost = 0x1p126F;

/// The library's fixed point has no inf and no NaN, and makes finite numbers of them. A packet that
/// holds 2^126 gets the exponent 127, which every worker turns into a scale of 0 and NaN for the
/// whole packet; so that takes the place of what cannot be represented. True where there was such a
/// value.
bool saturate(float* values, std::uint64_t numel) {
  constexpr std::uint64_t kBlock = 4096;
  std::atomic<bool> found{false};
  inParts(numel, 1, [&](std::uint64_t first, std::uint64_t last) noexcept {
    for (auto begin = first; begin < last; begin += kBlock) {
      const auto end = std::min(begin + kBlock, last);
      if (!(quantize::largest(values + begin, end - begin) < kMost)) {
        found.store(true, std::memory_order_relaxed);
        std::replace_if(
            values + begin, values + end, [](float value) { return !(std::fabs(value) < kMost); },
            kMost);
      }
    }
  });
  return found;
}

/// Saturates the values of a row from `first` to before `last`. Those that `fill` has to copy to it
/// are looked at while they are in the cache.
bool saturate(float* values, std::uint64_t first, std::uint64_t last, const Steps::Step& fill) {
  constexpr std::uint64_t kPiece = 1U << 18U;
  const auto size = fill ? kPiece : last - first;
  bool found = false;
  for (auto begin = first; begin < last; begin += size) {
    const auto end = std::min(begin + size, last);
    if (fill) {
      fill(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end));
    }
    found = saturate(values + begin, end - begin) || found;
  }
  return found;
}

/// Values that the library would have made NaN are NaN in a sum of floats as well.
void unsaturate(float* values, std::uint64_t numel) {
  inParts(numel, 1, [&](std::uint64_t first, std::uint64_t last) noexcept {
    std::replace_if(
        values + first, values + last, [](float value) { return !(std::fabs(value) < kMost); },
        std::numeric_limits<float>::quiet_NaN());
  });
}

std::string nameOf(const Sum& sum) {
  return text("the ", sum.what, " of ", sum.numel,
              sum.element == Element::kFloat32 ? " float32 elements" : " int32 elements");
}

/// Called with the mutex held. Gives a job to the library; returns why that does not take it.
std::string hand(Process& state, Submitted& job, const std::string& name, void* data) {
  auto& context = switchml::Context::GetInstance();
  if (state.stopping) {
    return "the SwitchML context is being stopped";
  }
  if (context.GetContextState() != switchml::Context::RUNNING) {
    return "the SwitchML context was stopped by other code of this process";
  }
  const auto type = job.sum.element == Element::kFloat32 ? switchml::FLOAT32 : switchml::INT32;
  const auto entry = std::make_shared<Jobs::Entry>();
  try {
    state.jobs->add(entry, context.AllReduceAsync(data, data, job.sum.numel, type, switchml::SUM));
  } catch (const std::exception& error) {
    return text(name, " could not be submitted: ", error.what());
  }
  job.entry = entry;
  job.jobs = state.jobs;
  ++job.jobs->unfinished;
  return "";
}

/// Waits for a job of the library. Returns why it has no sum. `pulse` may be null.
std::string await(const Submitted& job, const std::string& name, Clock::time_point deadline,
                  std::chrono::milliseconds limit, Pulse* pulse) {
  const auto answered = Clock::now() + kLastAnswers;
  int gone = Pulse::kNobody;
  const auto look = [&] {
    const auto before = gone;
    gone = pulse == nullptr ? Pulse::kNobody : pulse->gone();
    return gone != Pulse::kNobody && gone == before && Clock::now() >= answered;
  };
  const auto status = job.jobs->wait(*job.entry, deadline, look);
  if (status == switchml::FINISHED) {
    return "";
  }
  if (status == switchml::FAILED) {
    return "SwitchML failed " + name;
  }
  look();
  const auto who = gone == Pulse::kNobody ? "" : text(": rank ", gone, " is gone");
  return Clock::now() >= deadline || who.empty()
             ? text(name, " did not finish within ", limit.count(), " ms", who)
             : text(name, " cannot finish", who);
}

/// A sum without a ticket, while nobody else has the library. Throws std::runtime_error where there
/// is none.
void sumAlone(Process& state, Sum sum, std::chrono::milliseconds limit) {
  Submitted job{std::move(sum), nullptr, nullptr};
  const auto name = nameOf(job.sum);
  std::unique_lock<std::mutex> lock(state.mutex);
  auto why = hand(state, job, name, job.sum.data);
  if (why.empty()) {
    lock.unlock();
    why = await(job, name, job.jobs->turn(*job.entry) + limit, limit, nullptr);
    lock.lock();
  }
  if (!why.empty()) {
    state.lost.emplace(UINT64_MAX - state.lost.size(), std::move(job));
    throw std::runtime_error(why);
  }
  --job.jobs->unfinished;
}

/// The jobs of one call, which have the tickets from `ticket` on. All of them are to be finished
/// when `limit` has passed since the first was submitted and the jobs of other calls before it have
/// ended. Those have limits of their own, and what fails one of them gives up all.
///
/// Where the group fails over, the library works on copies, and a job that it did not finish is
/// summed over Gloo, where `patience` is the limit.
class Flight {
 public:
  Flight(Process& state, const Delegation& group, std::uint64_t ticket, std::uint64_t jobs,
         std::chrono::milliseconds limit, std::chrono::milliseconds patience)
      : state_(state),
        call_(ticket),
        next_(ticket),
        end_(ticket + jobs),
        limit_(limit),
        patience_(patience),
        failover_(group.failover.get()),
        pulse_(group.pulse.get()),
        first_(group.firstTicket) {}

  /// Until the context has stopped, its threads may still work on the memory of a job that did not
  /// finish, also of a failed one.
  ~Flight() {
    if (next_ != end_) {
      abandon(next_);
    }
    if (!submitted_.empty()) {
      std::unique_lock<std::mutex> lock(state_.mutex);
      fail(state_, text(what(*submitted_.begin()), " was dropped before it was finished"));
      lock.unlock();
      stoppedWithin(kStopAfterFailure);
      lock.lock();
      state_.lost.merge(submitted_);
    }
  }
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  std::size_t size() const { return submitted_.size(); }

  /// True where a job was summed over Gloo.
  bool redone() const { return redone_; }

  /// Returns when the ticket's turn has come and the library has the job.
  void submit(Sum sum);

  /// Returns when the oldest job is finished.
  void finish();

 private:
  static std::string what(const SubmittedJobs::value_type& job) {
    return text(nameOf(job.second.sum), " (number ", job.first, ")");
  }

  /// True where the caller has the sum of the library. False where the group fails over.
  bool take(const SubmittedJobs::value_type& job);
  void redo(const SubmittedJobs::value_type& job);

  Process& state_;
  const std::uint64_t call_;
  std::uint64_t next_;
  const std::uint64_t end_;
  const std::chrono::milliseconds limit_;
  const std::chrono::milliseconds patience_;
  Failover* const failover_;
  Pulse* const pulse_;
  const std::uint64_t first_;
  bool redone_ = false;
  Clock::time_point deadline_ = Clock::time_point::max();
  SubmittedJobs submitted_;
};

void Flight::submit(Sum sum) {
  SubmittedJobs made;
  auto& job = *made.emplace(next_, Submitted{std::move(sum), nullptr, nullptr}).first;
  const auto& given = job.second.sum;
  std::unique_lock<std::mutex> lock(state_.mutex);
  state_.turnChanged.wait(lock, [&] { return state_.turn == next_ || !state_.broken.empty(); });
  auto* data = given.data;
  if (failover_ != nullptr) {
    lock.unlock();  // the turn is this job's
    data = failover_->admit(next_ - first_, next_ == call_, given.data, given.bytes());
    lock.lock();
  }
  std::string why;
  const bool goesOver = failover_ != nullptr && (data == nullptr || state_.stopping);
  if (state_.broken.empty() && !goesOver) {
    why = hand(state_, job.second, what(job), data);
    if (!why.empty() && failover_ == nullptr) {
      fail(state_, why);
    }
  }
  if (!state_.broken.empty()) {
    throwBroken(state_);
  }
  submitted_.merge(made);
  ++next_;
  ++state_.turn;
  lock.unlock();
  state_.turnChanged.notify_all();
  if (!why.empty()) {
    failover_->suspend(why);
  }
  debug("submitted ", what(job));
}

bool Flight::take(const SubmittedJobs::value_type& job) {
  if (job.second.entry == nullptr) {
    return false;
  }
  const auto begun = Clock::now();
  deadline_ = std::min(deadline_, job.second.jobs->turn(*job.second.entry) + limit_);
  const auto why = await(job.second, what(job), deadline_, limit_, pulse_);
  state_.waited.fetch_add(metrics::Times::nanoseconds(Clock::now() - begun),
                          std::memory_order_relaxed);
  if (!why.empty() && failover_ != nullptr) {
    failover_->suspend(why);
    return false;
  }
  if (failover_ != nullptr && !failover_->take(job.first - first_, job.second.sum.data)) {
    return false;
  }
  std::lock_guard<std::mutex> lock(state_.mutex);
  if (!why.empty()) {
    fail(state_, why);
    throwBroken(state_);
  }
  --job.second.jobs->unfinished;
  return true;
}

void Flight::redo(const SubmittedJobs::value_type& job) {
  const auto& sum = job.second.sum;
  if (sum.saturated) {
    unsaturate(static_cast<float*>(sum.data), sum.numel);
  }
  try {
    failover_->redo(job.first - first_, sum.element, sum.data, sum.numel, patience_);
  } catch (const std::exception& error) {
    std::lock_guard<std::mutex> lock(state_.mutex);
    fail(state_, error.what());
    throwBroken(state_);
  }
  redone_ = true;
}

void Flight::finish() {
  auto& job = *submitted_.begin();
  if (!take(job)) {
    redo(job);
  }
  debug("finished ", what(job));
  const auto then = std::move(job.second.sum.then);
  submitted_.erase(submitted_.begin());
  if (then) {
    then();
  }
}

/// Sums a known pattern of each type with the other ranks. That a context has started does not say
/// that its packets arrive, nor that their sums are right. `limit` is for each. `step` becomes
/// "sums" once there are any.
Offer probe(Process& state, const switchml::Config& config, std::chrono::milliseconds limit,
            std::uint64_t seed, const char*& step) {
  const auto& general = config.general_;
  const Probe pattern(general.rank, general.num_workers, general.packet_numel, seed);
  const auto slots = kSimulator ? 0 : outstanding(config);  // it has none
  const auto numel = probeNumel(slots, general.num_worker_threads, messageNumel(config));
  const auto check = [&](auto zero, Element element) {
    const auto values = std::make_shared<std::vector<decltype(zero)>>(numel);
    pattern.fill(*values);
    sumAlone(state, {"probe", values->data(), numel, element, values, nullptr}, limit);
    return pattern.objection(*values);
  };
  std::string why;
  try {
    // Both in any case: the sums of this rank alone may be wrong, and the others wait for it.
    why = check(std::int32_t{}, Element::kInt32);
    const auto floats = check(float{}, Element::kFloat32);
    step = "sums";
    why = why.empty() ? floats : why;
  } catch (const std::exception& error) {
    why = error.what();
  }
  return why.empty() ? Offer() : Offer::refuse(why, packets(state).words());
}

/// Steps by which the context of a group is used again after a failure. `timeout` is the group's.
std::vector<Failover::Step> stepsBack(Process& state, const switchml::Config& config,
                                      const std::string& place, std::chrono::milliseconds timeout,
                                      std::chrono::milliseconds probing) {
  const auto obstacle = [](const Offer& offer) { return Failover::Obstacle{offer.words}; };
  return {[&state, config, place, timeout, obstacle](std::uint64_t /*seed*/) {
            static_cast<void>(stoppedWithin(between(kStopAfterFailure, timeout)));
            std::unique_lock<std::mutex> lock(state.mutex);
            if (const auto why = obstacleToStart(state); !why.empty()) {
              return Failover::Obstacle{why, !startsAgain(config.general_)};
            }
            lock.unlock();
            if (hasController(config)) {
              if (const auto offer = reachController(config, place, timeout); !offer.able()) {
                return obstacle(offer);
              }
            }
            awaitQuiet(config, timeout);
            return Failover::Obstacle{};
          },
          [&state, config, timeout, obstacle](std::uint64_t /*seed*/) {
            return obstacle(startContext(state, config, std::min(timeout / 2, kStartAgain)));
          },
          [&state, config, probing, obstacle](std::uint64_t seed) {
            const char* step = "probe";
            return obstacle(
                sumsAreFake(config.general_) ? Offer() : probe(state, config, probing, seed, step));
          }};
}

Failover::Delegate delegateOf(Process& state, std::vector<Failover::Step> steps) {
  Failover::Delegate delegate;
  delegate.stop = [&state](const std::string& why) { suspend(state, why); };
  delegate.copy = [](void* to, const void* from, std::size_t bytes) {
    constexpr auto kWord = sizeof(std::int32_t);
    inParts(bytes / kWord, 1, [=](std::uint64_t first, std::uint64_t last) noexcept {
      std::memcpy(static_cast<char*>(to) + first * kWord,
                  static_cast<const char*>(from) + first * kWord, (last - first) * kWord);
    });
  };
  delegate.say = say;
  delegate.steps = std::move(steps);
  delegate.resume = [&state] { state.suspended.set(""); };
  return delegate;
}

/// Number of elements of a delegated allreduce that are sent in fewer bits.
std::uint64_t quantizedNumel(const Delegation& group, const Request& request) {
  return request.element == Element::kInt32 ? 0 : group.quantization.numel(request.numel);
}

/// Number of jobs of a delegated allreduce: the scales and the values in fewer bits, if there are
/// any, and the parts of the rest.
std::uint64_t jobsOf(const Delegation& group, const Request& request) {
  const auto quantized = quantizedNumel(group, request);
  const auto rest = request.numel - quantized;
  return (quantized == 0 ? 0 : 2) + rest / group.chunkNumel +
         (rest % group.chunkNumel == 0 ? 0 : 1);
}

/// An allreduce that the group delegates.
class Reduction {
 public:
  Reduction(Process& state, const Delegation& group, std::uint64_t ticket, const Request& request,
            void* data, std::shared_ptr<void> owner, std::chrono::milliseconds limit,
            std::chrono::milliseconds patience, const Steps& steps)
      : group_(group),
        request_(request),
        element_(request.element == Element::kInt32 ? Element::kInt32 : Element::kFloat32),
        values_(static_cast<float*>(data)),
        owner_(std::move(owner)),
        steps_(steps),
        flight_(state, group, ticket, jobsOf(group, request), limit, patience) {}

  /// True where a job was summed over Gloo.
  bool redone() const { return flight_.redone(); }

  /// Returns the bytes that were sent.
  std::uint64_t run() {
    const auto quantized = quantizedNumel(group_, request_);
    const auto bytes = quantized == 0 ? 0 : sumQuantized(quantized);
    sumWhole(quantized);
    return bytes + 4 * (request_.numel - quantized);
  }

 private:
  /// Jobs in the library at once: enough for the next to be there when one ends. More would only
  /// delay the jobs of other calls.
  static constexpr std::size_t kAhead = 2;

  std::uint64_t sumQuantized(std::uint64_t numel);
  void sumWhole(std::uint64_t first);

  /// True where some of the values, which `saturates` asks for, were too large.
  bool before(std::uint64_t first, std::uint64_t last, bool saturates) {
    const auto from = static_cast<std::int64_t>(first);
    const auto to = static_cast<std::int64_t>(last);
    if (steps_.before) {
      steps_.before(from, to);
    }
    if (saturates) {
      return saturate(values_, first, last, steps_.fill);
    }
    if (steps_.fill) {
      steps_.fill(from, to);
    }
    return false;
  }

  void after(std::uint64_t first, std::uint64_t last) {
    if (request_.op == Op::kAvg) {
      const auto workers = static_cast<float>(group_.workers);
      inParts(last - first, 1, [&](std::uint64_t begin, std::uint64_t end) noexcept {
        std::for_each(values_ + first + begin, values_ + first + end,
                      [workers](float& value) { value /= workers; });
      });
    }
    steps_.after(static_cast<std::int64_t>(first), static_cast<std::int64_t>(last));
  }

  const Delegation& group_;
  const Request& request_;
  const Element element_;
  float* const values_;  // or int32, which is as large
  const std::shared_ptr<void> owner_;
  const Steps& steps_;
  Flight flight_;
};

/// Sums the first `numel` values in fewer bits; returns the bytes that were sent.
///
/// A maximum is nothing that a switch finds. So each rank writes its scales beside those of the
/// others, where these write 0, and the sum has all of them. They are a job before the job of the
/// values, so their order is that of the tickets.
std::uint64_t Reduction::sumQuantized(std::uint64_t numel) {
  const quantize::Format format{static_cast<unsigned>(group_.quantization.bits), group_.workers,
                                static_cast<std::size_t>(group_.quantization.bucket), false};
  const auto buckets = format.buckets(numel);
  const auto inBuckets = [&](const auto& function) {
    inParts(buckets, format.bucket, [&](std::uint64_t first, std::uint64_t last) noexcept {
      function(quantize::Range{first, last});
    });
  };
  const auto scales = std::make_shared<std::vector<std::int32_t>>(buckets * group_.workers);
  const auto words = std::make_shared<std::vector<std::uint32_t>>(format.words(numel));
  auto* const own = scales->data() + buckets * group_.rank;
  before(0, numel, /*saturates=*/false);
  inBuckets([&](auto range) { quantize::largest(format, values_, numel, own, range); });
  flight_.submit({"scales", scales->data(), scales->size(), Element::kInt32, scales, nullptr});
  flight_.finish();
  for (std::size_t i = 0; i < buckets; ++i) {
    for (std::size_t other = i; other < scales->size(); other += buckets) {
      own[i] = std::max(own[i], (*scales)[other]);
    }
  }
  inBuckets([&](auto range) {
    quantize::encode<const float>(format, values_, numel, own, 0, words->data(), range);
  });
  flight_.submit({"allreduce", words->data(), words->size(), Element::kInt32, words, nullptr});
  flight_.finish();
  inBuckets(
      [&](auto range) { quantize::decode(format, words->data(), own, 1, values_, numel, range); });
  after(0, numel);
  return 4 * (scales->size() + words->size());
}

/// Sums the values from `first` on as they are.
void Reduction::sumWhole(std::uint64_t first) {
  const bool saturates = element_ == Element::kFloat32 && group_.quantizes;
  for (std::uint64_t last = first; first < request_.numel; first = last) {
    last += std::min(group_.chunkNumel, request_.numel - first);
    const bool lost = before(first, last, saturates) && group_.workers == 1;
    flight_.submit({"allreduce", values_ + first, last - first, element_, owner_,
                    [=] {
                      if (lost) {
                        std::fill(values_ + first, values_ + last,
                                  std::numeric_limits<float>::quiet_NaN());
                      }
                      after(first, last);
                    },
                    saturates});
    if (flight_.size() == kAhead) {
      flight_.finish();
    }
  }
  while (flight_.size() > 0) {
    flight_.finish();
  }
}

/// Measures with the other ranks from how many elements on SwitchML is faster than Gloo, and takes
/// that number into the settings of the group.
Offer compare(Process& state, Delegation& group, const std::function<Ring()>& connected, int size,
              std::vector<Timing>& timings) {
  const auto limit = std::min(kProbe, group.timeout / 4);  // of a message, or of an allreduce
  const auto row = std::make_shared<std::vector<float>>();
  const auto timed = [&row](std::uint64_t numel, const auto& allreduce) {
    row->assign(numel, 1);
    const auto begun = Clock::now();
    allreduce();
    return Crossover::Nanoseconds(Clock::now() - begun);
  };
  const Steps steps{{}, [](std::int64_t /*first*/, std::int64_t /*last*/) {}};
  try {
    RingCollectives ring(connected(), kMeasurements, static_cast<int>(group.rank), size);
    Crossover::Collectives collectives;
    collectives.switchml = [&](std::uint64_t numel) {
      const Request request{Element::kFloat32, Op::kSum, 1, numel};
      return timed(numel, [&] {
        const auto ticket = state.nextTicket.fetch_add(jobsOf(group, request));
        Reduction(state, group, ticket, request, row->data(), row, limit, limit, steps).run();
      });
    };
    collectives.gloo = [&](std::uint64_t numel) {
      return timed(numel, [&] { ring.sum(row->data(), numel, limit); });
    };
    collectives.largest = [&](std::uint64_t number) {
      const auto all = ring.gather(number, limit);
      return *std::max_element(all.begin(), all.end());
    };
    timings = Crossover::measure(collectives, std::min(kMeasured, group.timeout / 16));
  } catch (const std::exception& error) {
    std::lock_guard<std::mutex> lock(state.mutex);
    fail(state, text("SwitchML could not be compared with Gloo: ", error.what()));
    return Offer::refuse(state.broken.get());
  }
  group.minNumel = Crossover::find(timings);
  if (group.minNumel == Crossover::kNever) {
    return Offer::refuse(text("SWITCHML_MIN_NUMEL=auto: Gloo is faster at ", timings.back().numel,
                              " elements, the most that were measured"));
  }
  return {'y', text("SWITCHML_MIN_NUMEL=", group.minNumel), ""};
}

std::string quoted(const std::string& value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

/// Gives the claim on SwitchML back unless the group keeps it.
class Claim {
 public:
  explicit Claim(Process& state) : state_(state) {}
  ~Claim() {
    if (held) {
      std::lock_guard<std::mutex> lock(state_.mutex);
      state_.claimed = false;
    }
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  bool held = false;

 private:
  Process& state_;
};

}  // namespace

bool delegates(const void* context) noexcept {
  const auto* const group = sharedState().delegation.load(std::memory_order_acquire);
  return group != nullptr && std::find(group->contexts.begin(), group->contexts.end(), context) !=
                                 group->contexts.end();
}

void countUndelegated() noexcept {
  sharedState().fallbacks[kGroup].fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t takeTicket(const Request& request) noexcept {
  auto& state = sharedState();
  const auto* const group = state.delegation.load(std::memory_order_acquire);
  // Gloo has no average of integers either: it raises.
  const bool integers = request.element == Element::kInt32 && request.op == Op::kAvg;
  const auto why = group == nullptr                          ? kGroup
                   : request.tensors != 1                    ? kTensors
                   : !group->ops.has(request.op) || integers ? kOp
                   : !group->dtypes.has(request.element)     ? kDtype
                   : request.numel < group->minNumel         ? kNumel
                                                             : kFallbacks;
  if (why != kFallbacks) {
    state.fallbacks[why].fetch_add(1, std::memory_order_relaxed);
    return kNoTicket;
  }
  return state.nextTicket.fetch_add(jobsOf(*group, request), std::memory_order_relaxed);
}

std::uint64_t partNumel() noexcept {
  const auto* const group = sharedState().delegation.load(std::memory_order_acquire);
  return group == nullptr ? UINT64_MAX : group->chunkNumel;
}

void reduce(std::uint64_t ticket, const Request& request, void* data, std::shared_ptr<void> owner,
            std::chrono::milliseconds limit, const Steps& steps) {
  auto& state = process();
  if (state.forked) {
    throw std::runtime_error(kForked);
  }
  const auto* const group = state.delegation.load(std::memory_order_acquire);
  if (group == nullptr || ticket < group->firstTicket) {
    abandon(ticket);
    throw std::runtime_error("the process group of this allreduce has ended");
  }
  const auto begun = Clock::now();
  const auto patience = limit > limit.zero() ? limit : group->timeout;
  Reduction reduction(state, *group, ticket, request, data, std::move(owner),
                      std::min(patience, group->longest), patience, steps);
  const auto bytes = reduction.run();
  if (reduction.redone()) {
    state.failover.calls.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  state.calls.fetch_add(1, std::memory_order_relaxed);
  state.bytes.fetch_add(bytes, std::memory_order_relaxed);
  state.times.add(Clock::now() - begun);
}

void abandon(std::uint64_t ticket) noexcept {
  auto& state = process();
  std::lock_guard<std::mutex> lock(state.mutex);
  if (state.delegations.empty() || ticket >= state.delegations.back()->firstTicket) {
    fail(state, text("allreduce number ", ticket, " was dropped before it was submitted"));
  }
}

void join(const std::vector<const void*>& contexts, int rank, int size,
          std::chrono::milliseconds timeout, const Exchange& exchange) {
  auto& state = process();
  timeout = std::min(timeout, kLongest);
  Negotiation<Clock> negotiation(exchange, rank, size, timeout);
  Loaded loaded;
  const auto& config = loaded.config;
  Settings settings;
  Claim claim(state);
  std::unique_lock<std::mutex> lock(state.mutex);
  if (state.stopping && !state.claimed) {
    lock.unlock();
    static_cast<void>(stoppedWithin(between(kStopAfterFailure, timeout)));
    lock.lock();
  }
  auto offer = makeOffer(state, loaded, contexts.size(), rank, size, settings);
  claim.held = offer.able();
  state.claimed = state.claimed || claim.held;
  const bool first = !state.started;
  const bool starts = offer.able() && (first || state.stopping);
  lock.unlock();
  const char* step = "offer";
  if (starts && usesSwitch(config.general_)) {
    if (auto reached = reachController(config, loaded.place, timeout); !reached.able()) {
      offer = std::move(reached);
      step = "controller";
    }
  }

  if (starts && !first) {
    awaitQuiet(config, timeout);
  }
  auto own = offer;
  auto agreed = negotiation.round("offer", own);
  if (agreed.able() && agreed.context == Offer::kBoth) {
    step = "stop";
    own = stopForOthers(state, timeout);
    agreed = negotiation.round(step, own);
  }
  if (agreed.able()) {
    if (starts && first) {
      loaded.cores.keep();
      if (!loaded.filled.words().empty()) {
        state.filled.set(loaded.filled.words());
      }
    }
    renew(state);
    step = "start";
    // The other ranks wait for the answer of this one as long as the group's timeout.
    own = usable(state, startContext(state, config, timeout / 2));
    agreed = negotiation.round(step, own);
  }
  const auto probing = std::min(kProbe, timeout / 4);  // of each; the others wait for both
  const std::chrono::milliseconds longest(
      std::min(static_cast<std::uint64_t>(kLongest.count()), settings.timeoutMs));
  if (agreed.able() && !sumsAreFake(config.general_)) {
    step = "probe";
    own = usable(state, probe(state, config, probing, negotiation.seed(), step));
    agreed = negotiation.round("probe", own);
  }
  Ring ring;
  const auto connected = [&] {
    if (!ring.send) {
      ring = exchange.connect();
      RingCollectives(ring, kRecoveries, rank, size).connect(timeout);
    }
    return ring;
  };
  Delegation group{contexts,
                   settings.minNumel,
                   settings.chunkNumel,
                   timeout,
                   longest,
                   config.general_.num_workers,
                   !kSimulator && config.general_.prepostprocessor == "cpu_exponent_quantizer",
                   settings.dtypes,
                   settings.ops,
                   settings.quantization,
                   static_cast<std::size_t>(rank),
                   0,
                   nullptr,
                   nullptr};
  Outcome outcome;
  outcome.size = size;
  if (agreed.able() && settings.measures && !sumsAreFake(config.general_)) {
    step = "measure";
    own = compare(state, group, connected, size, outcome.timings);
    agreed = negotiation.round(step, own);
  }
  if (agreed.able() && size > 1 && (settings.failsOver || usesSwitch(config.general_))) {
    step = "connect";
    own = Offer();
    try {
      if (settings.failsOver) {
        group.failover = std::make_shared<Failover>(
            connected(), rank, size, timeout,
            delegateOf(state,
                       stepsBack(state, config, loaded.place, timeout, std::min(probing, longest))),
            state.failover);
      }
      if (usesSwitch(config.general_)) {
        group.pulse = std::make_shared<Pulse>(connected(), rank, size, kBeating);
      }
    } catch (const std::exception& error) {
      own = Offer::refuse(text("the ranks cannot be connected: ", error.what()));
    }
    agreed = negotiation.round(step, own);
  }
  outcome.offer = offer.able() ? offer.words : "";
  if (agreed.able()) {
    settings.measures = false;
    settings.minNumel = group.minNumel;
    outcome.terms = termsOf(config, settings);
    outcome.decision = text(
        sumsAreFake(config.general_) ? "WARNING: NOT REAL SUMS: " : "", "allreduce(",
        settings.ops.names(", "), ") of ", settings.dtypes.names(", "), " goes to SwitchML",
        settings.quantization.bits == Quantization::kWhole
            ? ""
            : text(" in ", settings.quantization.bits, " bits"),
        " (", outcome.terms, state.filled.empty() ? "" : "; filled in: ", state.filled.get(), ")");
  } else {
    outcome.decision = "allreduce stays with Gloo: " + agreed.words;
    outcome.reason = agreed.words;
    outcome.step = step;
    outcome.objection = own.able()          ? ""
                        : own.where.empty() ? own.words
                                            : text(own.words, " (", own.where, ")");
  }
  const auto line = outcome.line();

  lock.lock();
  state.group.set(outcome);
  const bool firstGroup = !state.joined;
  state.joined = true;
  // Counters are those of the process; a group that delegates says most about them.
  if (firstGroup || agreed.able()) {
    state.labels.set({{"host", hostName()},
                      {"rank", std::to_string(rank)},
                      {"world_size", std::to_string(size)},
                      {"group", negotiation.name()}});
  }
  const bool warn = !offer.where.empty() && !state.warned;
  state.warned = state.warned || warn;
  if (agreed.able()) {
    if (group.pulse) {
      group.pulse->begin();
    }
    group.firstTicket = state.nextTicket.load();
    state.delegations.push_back(std::make_unique<const Delegation>(std::move(group)));
    state.delegation.store(state.delegations.back().get(), std::memory_order_release);
    claim.held = false;
  }
  startMetrics(state, rank);
  lock.unlock();
  if (rank == 0) {
    say(line);
  }
  // Not every torch shares it: some have keys of each attempt.
  if (firstGroup && negotiation.again() && isSet("TORCHELASTIC_RESTART_COUNT") &&
      !isSet("TORCH_DISABLE_SHARE_RDZV_TCP_STORE")) {
    say("warning: this is a restart with the Store of the attempt before, in which Gloo may find "
        "addresses of processes that have ended, and hang; set "
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 for torchrun with --rdzv-backend=c10d");
  }
  if (warn) {
    say(text("warning: rank ", rank, ": ", offer.words, " (", offer.where,
             "); allreduce stays with Gloo"));
  }
  if (!agreed.able() && agreed.kind != 'b' && agreed.required) {
    throw std::runtime_error(text("SWITCHML_REQUIRE is set, but in this ", line,
                                  offer.where.empty() ? "" : " (" + offer.where + ")"));
  }
}

void leave(const std::vector<const void*>& contexts) noexcept {
  if (contexts.empty() || !delegates(contexts[0])) {
    return;
  }
  auto& state = process();
  std::unique_lock<std::mutex> lock(state.mutex);
  const auto* const group = state.delegation.exchange(nullptr);
  state.claimed = false;
  if (state.counters) {
    state.counters->wake();
  }
  lock.unlock();
  if (state.forked) {
    return;
  }
  if (group->failover) {
    group->failover->leave();
  }
  if (group->pulse) {
    group->pulse->leave();
  }
}

void abort(const std::vector<const void*>& contexts) noexcept {
  if (contexts.empty() || !delegates(contexts[0])) {
    return;
  }
  auto& state = process();
  std::lock_guard<std::mutex> lock(state.mutex);
  fail(state, "the process group was aborted");
}

}  // namespace switchml_torch

/// Writes a JSON object about this process (its flags and counters, and the outcome of the newest
/// group) as a NUL-terminated string of at most `capacity` bytes; returns the bytes that it needs.
extern "C" __attribute__((visibility("default"))) std::size_t switchml_torch_report(
    char* buffer, std::size_t capacity) {
  using namespace switchml_torch;
  auto& state = process();
  std::string fallbacks;
  for (std::size_t i = 0; i < kFallbacks; ++i) {
    fallbacks += text(i == 0 ? "" : ", ", quoted(kFallbackNames[i]), ": ",
                      state.fallbacks[i].load(std::memory_order_relaxed));
  }
  const auto terms = [](const std::string& agreed) {
    std::string out;
    for (const auto& [name, value] : readTerms(agreed)) {
      out += text(out.empty() ? "" : ", ", quoted(name), ": ", quoted(value));
    }
    return out;
  };
  const auto group = state.group.get();
  const auto broken = state.broken.get();
  const auto& failover = state.failover;
  const auto report = text(
      "{\"flags\": ", quoted(SWITCHML_TORCH_FLAGS),
      ", \"simulator\": ", kSimulator ? "true" : "false", ", \"protocol\": ", kProtocol,
      ", \"client\": ", quoted(clientMark()),
      ", \"delegating\": ", !state.forked && state.delegation.load() != nullptr ? "true" : "false",
      ", \"failure\": ", quoted(state.forked && broken.empty() ? kForked : broken),
      ", \"group\": ", quoted(group.line()), ", \"world_size\": ", group.size,
      ", \"decision\": ", quoted(group.decision), ", \"reason\": ", quoted(group.reason),
      ", \"step\": ", quoted(group.step), ", \"objection\": ", quoted(group.objection),
      ", \"measured\": ", Crossover::json(group.timings), ", \"offer\": {", terms(group.offer),
      "}, \"terms\": {", terms(group.terms), "}, \"filled_in\": ", quoted(state.filled.get()),
      ", \"calls\": ", state.calls.load(std::memory_order_relaxed),
      ", \"bytes\": ", state.bytes.load(std::memory_order_relaxed),
      ", \"packets\": ", packets(state).json(), ", \"fallbacks\": {", fallbacks,
      "}, \"failover\": {\"failovers\": ", failover.failovers.load(),
      ", \"returns\": ", failover.returns.load(), ", \"reason\": ", quoted(state.failure.get()),
      ", \"redone\": ", failover.redone.load(), ", \"calls\": ", failover.calls.load(),
      ", \"seconds\": ", failover.seconds(), "}}");
  if (capacity > 0) {
    buffer[report.copy(buffer, capacity - 1)] = '\0';
  }
  return report.size() + 1;
}
