// Memory and threads that are missing where nothing may be thrown: for each function, a child for
// each place of it that wants some. Linked as one unit with the delegate; run beside a switchml.cfg
// for one rank.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include <functional>
#include <map>
#include <new>

#include "check.hpp"
#include "recover/failover.hpp"
#include "recover/heartbeat.hpp"
#include "wires.hpp"

extern "C" std::size_t switchml_delegate_report(char* buffer, std::size_t capacity) noexcept;

namespace {

using namespace switchml_delegate;
using std::chrono::milliseconds;

/// What is missing: the thing at one place, or everything from there on; for a thread or for all.
struct Lack {
  long place;  // from 1 on
  bool once;
  bool everywhere;
};

std::atomic<long> left{0};  // places before the one that is wanted in vain; 0: nothing is missing
std::atomic<bool> once{false};
std::atomic<bool> everywhere{false};
thread_local bool mine = false;
auto& met = *static_cast<std::atomic<bool>*>(mmap(
    nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));

bool isMissing() {
  if (left == 0 || !(mine || everywhere)) {
    return false;
  }
  const auto before = left.fetch_sub(1);
  if (before > 1) {
    return false;
  }
  left = before == 1 && !once ? 1 : 0;
  return met = true;
}

void begin(const Lack& lack) {
  once = lack.once;
  everywhere = lack.everywhere;
  mine = true;
  left = lack.place;
}

void end() { left = 0; }

}  // namespace

void* operator new(std::size_t size) {
  void* const memory = isMissing() ? nullptr : std::malloc(size);
  return memory == nullptr ? throw std::bad_alloc() : memory;
}
void* operator new[](std::size_t size) { return operator new(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t /*size*/) noexcept { std::free(memory); }

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*function)(void*), void* argument) {
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return isMissing() ? EAGAIN : real(thread, attributes, function, argument);
}

namespace {

constexpr Request kRequest{Element::kInt32, Op::kSum, 1, 1000};
constexpr std::uint64_t kPart = 600;
const int context = 0;

/// A group that delegates, without other ranks. Its context runs.
void delegating(std::shared_ptr<Failover> failover, std::shared_ptr<Heartbeat> heartbeat) {
  check(delegate() != nullptr, "the delegate");
  auto& own = process();
  switchml::Config config;
  check(config.LoadFromFile("switchml.cfg"), "a configuration");
  check(own.runtime.library.start(config, std::chrono::minutes(1)).empty(), "it starts");
  processShutdown.contextStarts();
  Delegation group{};
  group.contexts = {&context};
  group.settings.chunkNumel = kPart;
  group.timeout = group.longest = std::chrono::minutes(1);
  group.workers = 1;
  group.failover = std::move(failover);
  group.heartbeat = std::move(heartbeat);
  own.joinState.reservation.reserve();
  own.joinState.reservation.delegate();
  own.runtime.begin(std::move(group));
}

std::string reduced(std::uint64_t sequence, const std::function<void(std::int64_t)>& before = {}) {
  const auto memory = std::make_shared<std::vector<std::int32_t>>(kRequest.numel);
  PartCallbacks callbacks;
  callbacks.before = [&](std::int64_t first, std::int64_t /*last*/) {
    if (before) {
      before(first);
    }
  };
  callbacks.after = [](std::int64_t /*first*/, std::int64_t /*last*/) {};
  callbacks.memory = [&](std::int64_t first, std::int64_t /*last*/) {
    return Memory{memory->data() + first, memory};
  };
  return thrown([&] { delegate()->reduce(sequence, kRequest, {}, callbacks); });
}

std::uint64_t taken() { return delegate()->takeSequence(&context, kRequest); }

/// All later sums raise, and the context has stopped.
void isBroken() {
  check(process().runtime.state.broken(), "the group is broken");
  check(reduced(taken()).find(kAllreduceFailed) == 0, "a later sum raises");
  check(process().runtime.library.stoppedWithin(std::chrono::seconds(20), 1), "it has stopped");
}

void abandoned(const Lack& lack) {
  const auto number = taken();
  begin(lack);
  delegate()->abandon(number);
  end();
  isBroken();
}

void aborted(const Lack& lack) {
  begin(lack);
  delegate()->abort(&context);
  end();
  isBroken();
}

/// A call ends with an exception while a job of it is in the library.
void dropped(const Lack& lack) {
  const std::runtime_error error("no values");
  const auto why = reduced(taken(), [&](std::int64_t first) {
    if (first > 0) {
      begin(lack);
      throw error;
    }
  });
  end();
  check(why == error.what(), why);
  isBroken();
}

void summed(const Lack& lack) {
  const auto number = taken();
  const auto why = reduced(number, [&](std::int64_t first) {
    if (first == 0) {
      begin(lack);
    }
  });
  end();
  if (why.empty()) {
    check(reduced(taken()).empty(), "it goes on");
  } else {
    isBroken();
  }
}

void ended(const Lack& lack) {
  begin(lack);
  delegate()->leave(&context);
  end();
  check(!delegate()->delegates(&context), "it has ended");
  check(taken() == kNoSequence, "a later sum goes over Gloo");
  check(process().joinState.reservation.state() == Reservation::State::kFree, "for another group");
}

constexpr int kExitCode = 7;

void exited(const Lack& lack) {
  begin(lack);
  std::exit(kExitCode);
}

/// A forked child has nothing of its own yet.
void forked(const Lack& lack) {
  const auto child = fork();
  if (child == 0) {
    alarm(20);
    begin(lack);
    check(delegate()->partNumel() > 0, "a part");
    delegate()->delegates(&context);
    const auto number = taken();
    delegate()->abandon(number);
    delegate()->abort(&context);
    delegate()->leave(&context);
    end();
    check(number == kNoSequence || !reduced(number).empty(), "it is no sum");
    begin(lack);
    std::exit(kExitCode);
  }
  int status = 0;
  check(waitpid(child, &status, 0) == child && WIFEXITED(status), "the child ends");
  std::_Exit(WEXITSTATUS(status));
}

void reported(const Lack& lack) {
  std::vector<char> buffer(8192);
  begin(lack);
  const auto size = switchml_delegate_report(buffer.data(), buffer.size());
  end();
  check(size == std::strlen(buffer.data()) + 1 &&
            std::string(buffer.data()).find("{\"problem\": \"") == 0,
        buffer.data());
}

/// The first call of a process. Without memory there is no delegate, until there is some.
void opened(const Lack& lack) {
  begin(lack);
  delegate();
  end();
  check(delegate() != nullptr, "the delegate");
}

/// A group is made, as of a program that makes another one if that raises.
void joined(const Lack& lack) {
  std::map<std::string, std::vector<std::uint8_t>> store;
  Exchange exchange;
  exchange.set = [&](const char* key, const auto& value) { store[key] = value; };
  exchange.get = [&](const char* key, milliseconds) { return store.at(key); };
  exchange.has = [&](const char* key) { return store.count(key) != 0; };
  exchange.remove = [&](const char* key) { store.erase(key); };
  const std::vector<const void*> contexts{&context};
  const auto join = [&] {
    return thrown([&] { delegate()->join(contexts, 0, 1, std::chrono::minutes(1), exchange); });
  };
  delegate();
  begin(lack);
  const auto why = join();
  end();
  auto& joinState = process().joinState;
  check(joinState.name.has_value() == delegate()->delegates(&context), "its name");
  check((joinState.reservation.state() == Reservation::State::kDelegating) ==
            delegate()->delegates(&context),
        "its reservation");
  if (!why.empty()) {
    check(joinState.reservation.state() == Reservation::State::kFree, "it is for another group");
    check(join().empty(), "another group is made");
  }
  const auto number = taken();
  check(number == kNoSequence || reduced(number).empty(), "a sum, by Gloo where that is agreed");
}

/// Two ranks with failover, of which one fails: nobody waits for ever.
void suspended(const Lack& lack) {
  wires::Wires wires(2);
  FailoverCounters counters;
  std::vector<std::unique_ptr<Failover>> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    Failover::Callbacks own;
    own.stop = [](const std::string&) {};
    own.copy = [](void* to, const void* from, std::size_t size) { std::memcpy(to, from, size); };
    own.say = [](const std::string&) {};
    ranks.push_back(std::make_unique<Failover>(wires.of(rank), rank, 2, milliseconds(50),
                                               std::move(own), counters));
  }
  for (auto& rank : ranks) {
    check(rank->admit(0, true, sizeof(std::int32_t)) != nullptr, "a job");
  }
  const std::string why = "it hangs, and says so in more words than a text has room for";
  std::atomic<bool> begun{false};
  std::vector<std::thread> threads;
  for (const auto& own : ranks) {
    threads.emplace_back([&, &rank = *own] {
      until([&begun] { return begun.load(); });
      std::int32_t word = 1;
      try {
        rank.suspend(why);
        rank.redo(0, Element::kInt32, &word, 1, milliseconds(50), [] {});
        check(word == 2, "the sum");
      } catch (const std::exception& error) {
        rank.abort(reasonOf(error));
      }
    });
  }
  begin(lack);
  ranks[0]->suspend(why);
  begun = true;
  for (auto& thread : threads) {
    thread.join();
  }
  end();
}

/// Connections to ranks that hear all and say nothing.
Ring listeners() {
  struct Pending {
    std::mutex mutex;
    std::condition_variable changed;
    bool aborted = false;
  };
  Ring ring;
  ring.send = [](unsigned, const void*, std::size_t) {
    return Transfer{[](milliseconds) { return true; }, [] {}};
  };
  ring.receive = [](unsigned, void*, std::size_t) {
    const auto pending = std::make_shared<Pending>();
    return Transfer{[pending](milliseconds limit) {
                      std::unique_lock<std::mutex> lock(pending->mutex);
                      pending->changed.wait_for(lock, limit, [&] { return pending->aborted; });
                      return false;
                    },
                    [pending] {
                      const std::lock_guard<std::mutex> lock(pending->mutex);
                      pending->aborted = true;
                      pending->changed.notify_all();
                    }};
  };
  return ring;
}

std::shared_ptr<Failover> failover() {
  static auto& counters = *new FailoverCounters;
  auto& runtime = process().runtime;
  Failover::Callbacks own;
  own.stop = [&runtime](const std::string& why) { runtime.suspend(why); };
  own.copy = [](void* to, const void* from, std::size_t size) { std::memcpy(to, from, size); };
  own.say = say;
  return std::make_shared<Failover>(listeners(), 0, 2, std::chrono::minutes(1), std::move(own),
                                    counters);
}

template <void (*scenario)(const Lack&), bool recovers = false>
void inGroup(const Lack& lack) {
  if (recovers) {
    const Heartbeat::Times times{std::chrono::seconds(5), std::chrono::minutes(1)};
    delegating(failover(), std::make_shared<Heartbeat>(listeners(), 0, 2, times));
  } else {
    delegating(nullptr, nullptr);
  }
  scenario(lack);
}

struct Scenario {
  void (*run)(const Lack&);
  int code = 0;  // of the process
  bool everywhere = false;
  long few = LONG_MAX;  // places that are tried one by one; of the later ones only some are
};

const std::map<std::string, Scenario> kScenarios{
    {"abandon", {inGroup<abandoned>}},
    {"abandon-failover", {inGroup<abandoned, true>}},
    {"abort", {inGroup<aborted>}},
    {"abort-failover", {inGroup<aborted, true>}},
    {"drop", {inGroup<dropped>}},
    {"drop-failover", {inGroup<dropped, true>}},
    {"exit", {inGroup<exited>, kExitCode}},
    {"exit-failover", {inGroup<exited, true>, kExitCode}},
    {"fork", {inGroup<forked>, kExitCode}},
    {"join", {joined, 0, false, 40}},
    {"leave", {inGroup<ended, true>}},
    {"open", {opened}},
    {"report", {inGroup<reported>, 0, false, 40}},
    {"sum", {inGroup<summed>}},
    {"suspend", {suspended, 0, true, 12}},
};

}  // namespace

int main(int argc, char** argv) {
  check(argc == 2 && kScenarios.count(argv[1]) != 0, "usage: scarcity SCENARIO");
  setenv("SWITCHML_ALLOW_FAKE_SUMS", "1", 1);  // a rank sums alone
  const auto& scenario = kScenarios.at(argv[1]);
  for (const bool one : {true, false}) {
    long places = 0;
    for (long place = 1;; place += place < scenario.few ? 1 : 1 + place / 4) {
      met = false;
      std::fflush(nullptr);
      const auto child = fork();
      if (child == 0) {
        alarm(60);
        scenario.run({place, one, scenario.everywhere});
        std::_Exit(scenario.code);
      }
      int status = 0;
      check(waitpid(child, &status, 0) == child && WIFEXITED(status) &&
                WEXITSTATUS(status) == scenario.code,
            std::string(argv[1]) + (one ? ", only" : ", from") + " place " + std::to_string(place) +
                ": ended with " + std::to_string(status));
      if (!met) {
        break;
      }
      ++places;
    }
    check(places > 0, "nothing is ever missing");
    std::fprintf(stderr, "%ld places\n", places);
  }
  std::puts("ok");
}
