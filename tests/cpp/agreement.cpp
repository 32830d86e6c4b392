// The negotiation of ranks over a Store in memory, some with the loader of a rank that has no
// library: ranks take turns at random, and time passes only if all of them wait. Prints ok.
#include "join/agreement.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "SwitchMLLoader.cpp"
#include "base/text.hpp"
#include "check.hpp"
#include "environment.hpp"
#include "join/settings.hpp"

using switchml_delegate::Ability;
using switchml_delegate::Capabilities;
using switchml_delegate::ContextState;
using switchml_delegate::Exchange;
using switchml_delegate::Negotiation;
using switchml_delegate::Record;
using switchml_delegate::Step;

namespace {

using Value = std::vector<std::uint8_t>;
using std::chrono::milliseconds;

constexpr milliseconds kTimeout = std::chrono::hours(1);
constexpr milliseconds kWork = kTimeout / 2;  // a rank takes for a round at most
constexpr milliseconds kLag = std::chrono::seconds(1);
constexpr std::uint64_t kNever = UINT64_MAX;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The time of the attempt that runs.
struct Clock final : switchml_delegate::AgreementClock {
  Time now() const override { return Time(milliseconds(passed)); }
  void sleep(milliseconds time) const override { sleeping(time); }
  static inline thread_local std::function<void(milliseconds)> sleeping;  // of this rank
  static inline std::atomic<milliseconds::rep> passed{0};
};
const Clock kClock;

/// The process has been killed.
struct Killed {};

/// Ranks of one attempt, each a thread, of which one runs at a time; and the Store.
class Attempt {
 public:
  /// All ranks are killed after `accesses` to the Store.
  Attempt(std::map<std::string, Value>& store, int size, std::uint64_t random,
          std::uint64_t accesses = kNever)
      : store_(store), ranks_(static_cast<std::size_t>(size)), random_(random), left_(accesses) {
    Clock::passed = 0;
  }

  /// Runs `rank(r, exchange)` on all but the `missing` ranks.
  template <typename Rank>
  void run(const Rank& rank, const std::set<int>& missing = {}) {
    for (const int r : missing) {
      ranks_[static_cast<std::size_t>(r)].ended = true;
    }
    inThreads(ranks_.size(), [&](std::size_t r) {
      if (missing.count(static_cast<int>(r)) != 0) {
        return;
      }
      Clock::sleeping = [this, r](milliseconds time) {
        enter(r, "never", time);
        ranks_[r].late = false;
      };
      try {
        rank(static_cast<int>(r), exchange(r));
      } catch (const Killed&) {
      }
      std::lock_guard<std::mutex> lock(mutex_);
      ranks_[r].ended = true;
      next();
    });
  }

  std::uint64_t accesses(int rank) const { return ranks_[static_cast<std::size_t>(rank)].accesses; }

 private:
  struct State {
    bool arrived = false;  // at an access, and waits for its turn
    bool ended = false;
    bool late = false;    // the time for the key is over
    std::string awaited;  // the key that it waits for; empty if it waits for none
    Clock::Time until;
    std::uint64_t accesses = 0;
    std::condition_variable turn;  // its own: to wake all ranks for one of them takes seconds
  };

  Exchange exchange(std::size_t rank) {
    Exchange made;
    made.set = [this, rank](const char* key, const Value& value) {
      const auto turn = enter(rank, "", {});
      store_[key] = value;
    };
    made.get = [this, rank](const char* key, milliseconds limit) {
      check(limit.count() > 0, "a wait without a limit");
      const auto turn = enter(rank, key, limit);
      if (ranks_[rank].late) {
        ranks_[rank].late = false;
        throw std::runtime_error("no key");
      }
      return store_.at(key);
    };
    made.has = [this, rank](const char* key) {
      const auto turn = enter(rank, "", {});
      return store_.count(key) != 0;
    };
    made.remove = [this, rank](const char* key) {
      const auto turn = enter(rank, "", {});
      store_.erase(key);
    };
    return made;
  }

  /// Waits until it is the rank's turn, which lasts until its next access.
  std::unique_lock<std::mutex> enter(std::size_t rank, const std::string& key, milliseconds limit) {
    std::unique_lock<std::mutex> lock(mutex_);
    auto& mine = ranks_[rank];
    mine.awaited = key;
    // Rank 0 is later than the others.
    mine.until = kClock.now() + limit + (rank == 0 ? kLag : milliseconds(0));
    mine.arrived = true;
    running_ = running_ == rank ? ranks_.size() : running_;
    next();
    mine.turn.wait(lock, [&] { return running_ == rank; });
    mine.arrived = false;
    ++mine.accesses;
    if (left_ == 0) {
      throw Killed();
    }
    left_ -= left_ == kNever ? 0 : 1;
    return lock;
  }

  bool canGoOn(const State& one) const {
    return one.awaited.empty() || store_.count(one.awaited) != 0 || left_ == 0;
  }

  /// Gives the turn to one of the ranks that can go on, once all have come to their next access.
  void next() {
    std::vector<std::size_t> ready;
    std::vector<std::size_t> waiting;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].ended) {
        continue;
      }
      if (!ranks_[r].arrived) {
        return;
      }
      (canGoOn(ranks_[r]) ? ready : waiting).push_back(r);
    }
    if (!ready.empty()) {
      running_ = ready[random_() % ready.size()];
    } else if (!waiting.empty()) {
      running_ = *std::min_element(waiting.begin(), waiting.end(), [this](auto a, auto b) {
        return ranks_[a].until < ranks_[b].until;
      });
      const auto until = ranks_[running_].until.time_since_epoch();
      const auto reached = std::chrono::duration_cast<milliseconds>(until).count();
      Clock::passed = std::max(Clock::passed.load(), reached);
      ranks_[running_].late = true;
    } else {
      return;
    }
    ranks_[running_].turn.notify_one();
  }

  std::map<std::string, Value>& store_;
  std::vector<State> ranks_;
  std::mt19937_64 random_;
  std::uint64_t left_;
  std::mutex mutex_;
  std::size_t running_ = SIZE_MAX;
};

constexpr Step kRounds[] = {Step::kCapabilities, Step::kStart, Step::kProbe};

struct Outcome {
  Record last;
  std::uint64_t seed = 0;
  bool again = false;
  std::string error;
  std::vector<std::string> lines;  // while it waited
};

const std::string kNoLibrary = "libgone.so.1";

/// Joins a group as a rank whose loader finds no library.
Record withoutLibrary(const Exchange& exchange, int rank, int size, const Capabilities& able,
                      const std::string& host,
                      const std::function<void(const std::string&)>& notify) {
  Record own{able};
  own.sources = SWITCHML_DELEGATE_DIGEST;
  own.host = host;
  return switchml_delegate::loader::Refusal(exchange, rank, size, kTimeout, own, notify, kClock)
      .decision();
}

/// Joins a group as a rank. It may work for as long as it may before each round.
Outcome join(const Exchange& exchange, int rank, int size, const std::vector<Capabilities>& own,
             std::uint64_t random, const std::string& host = "zeus") {
  Outcome out;
  out.error = thrown([&] {
    const auto notify = [&out](const std::string& line) { out.lines.push_back(line); };
    if (own[0].detail == kNoLibrary) {
      out.last = withoutLibrary(exchange, rank, size, own[0], host, notify);
      return;
    }
    Negotiation negotiation(exchange, rank, size, kTimeout, host, notify, kClock);
    for (std::size_t i = 0; i < own.size() && out.last.able(); ++i) {
      if ((random >> (3 * static_cast<std::size_t>(rank) + i) % 64U & 1U) != 0) {
        thrown([&] { exchange.get("never", kWork); });
      }
      out.last = negotiation.round(kRounds[i], own[i]);
    }
    out.seed = negotiation.seed();
    out.again = negotiation.again();
  });
  return out;
}

const Capabilities kAble{Ability::kAble, "terms", ""};
const std::vector<Capabilities> kAll{kAble, {}, {}};

std::vector<Outcome> together(Attempt& attempt, int size, std::uint64_t random,
                              const std::map<int, std::vector<Capabilities>>& others = {},
                              const std::set<int>& missing = {}) {
  std::vector<Outcome> out(static_cast<std::size_t>(size));
  attempt.run(
      [&](int rank, const Exchange& exchange) {
        const auto found = others.find(rank);
        out[static_cast<std::size_t>(rank)] =
            join(exchange, rank, size, found == others.end() ? kAll : found->second, random);
      },
      missing);
  return out;
}

const std::vector<Capabilities> kLacking{Capabilities::unable(kNoLibrary)};

void agreed(const std::vector<Outcome>& ranks, const std::string& name) {
  for (const auto& rank : ranks) {
    check(rank.error.empty(), name + ": " + rank.error);
    check(rank.last.able(), name + ": " + rank.last.detail);
    check(rank.seed == ranks[0].seed, name + ": one seed");
  }
}

/// Some ranks have no library, and all ranks take the decision that rank 0 would take with one.
void lacking(Attempt& attempt, int size, std::uint64_t random, const std::string& name) {
  std::map<int, std::vector<Capabilities>> others;
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank) {
    if ((random >> rank & 1U) != 0 || (rank == size - 1 && ranks.empty())) {
      others[rank] = kLacking;
      ranks.push_back(rank);
    }
  }
  const auto reason = switchml_delegate::ranksText(ranks) + ": " + kNoLibrary;
  for (const auto& rank : together(attempt, size, random, others)) {
    check(rank.last.detail == reason && rank.last.kind == Ability::kUnable,
          name + ": " + rank.last.detail + rank.error);
  }
}

/// One attempt after the other over one Store, each killed at another time, or refused.
void attempts(int size, std::uint64_t random) {
  std::mt19937_64 draw(random);
  const auto name = "size " + std::to_string(size) + ", random " + std::to_string(random);
  std::map<std::string, Value> store;
  std::set<std::uint64_t> seeds;
  const auto earlier = draw() % 3;
  const auto restart = [](std::uint64_t count) {
    setenv("TORCHELASTIC_RESTART_COUNT", std::to_string(count).c_str(), 1);
  };
  for (std::uint64_t i = 0; i < earlier; ++i) {
    restart(i);
    const auto cut = draw() % 3 == 0 ? kNever : draw() % (14 * static_cast<std::uint64_t>(size));
    Attempt attempt(store, size, draw(), cut);
    const auto last = size - 1;
    std::map<int, std::vector<Capabilities>> others;
    if (draw() % 2 == 0) {
      others[last] = {Capabilities::unable("disabled at first")};
    }
    if (draw() % 3 == 0) {
      others[static_cast<int>(draw() % static_cast<std::uint64_t>(size))] = kLacking;
    }
    const auto missing = draw() % 8 == 0 ? std::set<int>{1} : std::set<int>{};
    const auto ranks = together(attempt, size, draw(), others, missing);
    seeds.insert(ranks[0].seed);
  }
  restart(earlier);
  Attempt attempt(store, size, draw());
  const bool before = store.count("switchml/call") != 0;
  const auto kind = draw() % 3;
  if (kind == 0) {
    const auto ranks = together(attempt, size, draw());
    agreed(ranks, name);
    check(seeds.count(ranks[0].seed) == 0, name + ": another seed");
    check(ranks[0].again == before, name + ": rank 0 knows of an earlier attempt");
    const auto& call = store.at("switchml/call");
    const auto below = "switchml/" + std::string(call.begin(), call.end()) + "/";
    check(std::count_if(store.begin(), store.end(),
                        [&](const auto& one) { return contains(one.first, below); }) == 1,
          name + ": the keys go away");
  } else if (kind == 1) {
    lacking(attempt, size, draw(), name);
  } else {
    for (const auto& rank :
         together(attempt, size, draw(), {{1, {Capabilities::unable("disabled now")}}})) {
      check(rank.last.detail == "rank 1: disabled now",
            name + ": " + rank.last.detail + rank.error);
    }
  }
}

/// Groups are made one after the other by the same processes, which are not at the same place.
void again(int size, std::uint64_t random) {
  constexpr int kGroups = 4;
  std::map<std::string, Value> store;
  Attempt attempt(store, size, random);
  std::vector<std::vector<Outcome>> groups(kGroups,
                                           std::vector<Outcome>(static_cast<std::size_t>(size)));
  attempt.run([&](int rank, const Exchange& exchange) {
    for (int i = 0; i < kGroups; ++i) {
      const auto first = i % 2 == 0 ? kAble : Capabilities::unable("group " + std::to_string(i));
      groups[i][rank] = join(exchange, rank, size, {first, {}, {}}, random);
    }
  });
  for (int i = 0; i < kGroups; ++i) {
    for (const auto& rank : groups[i]) {
      check(rank.error.empty(), rank.error);
      check(rank.last.able() == (i % 2 == 0), "each group has its own decision");
      check(rank.last.able() || contains(rank.last.detail, "group " + std::to_string(i)),
            rank.last.detail);
      check(rank.seed == groups[i][0].seed, "one seed for each group");
    }
  }
  check(store.size() <= 1 + kGroups, "of each group its last decision stays, at most");
}

/// All others say the same: who is missing, in whichever round.
void missing(std::uint64_t random) {
  std::vector<std::string> lines;
  const auto said = [&](int size, const std::map<int, std::vector<Capabilities>>& dying,
                        const std::set<int>& never) {
    std::map<std::string, Value> store;
    Attempt attempt(store, size, random);
    std::set<std::string> errors;
    const auto ranks = together(attempt, size, random, dying, never);
    for (int r = 0; r < size; ++r) {
      if (never.count(r) == 0 && dying.count(r) == 0) {
        errors.insert(ranks[static_cast<std::size_t>(r)].error);
      }
    }
    check(errors.size() == 1, "one error for all");
    lines = ranks[0].lines;
    return *errors.begin();
  };
  const std::string end = " did not answer while the group was made; ";
  const std::string alive = end + "is it alive, and is its torch patched too? (";
  check(contains(said(4, {}, {2}), "SwitchML: rank 2 of 4" + alive), "a rank never comes");
  check(contains(said(4, {}, {0}), "SwitchML: rank 0 of 4" + alive), "rank 0 never comes");
  check(contains(said(5, {}, {1, 2, 4}), "SwitchML: ranks 1-2, 4 of 5" + end),
        "several never come");
  check(lines.size() >= 29 && lines.size() <= 60 &&
            contains(lines.back(), "ranks 1-2, 4 of 5 have not answered while"),
        "they are named again and again while rank 0 waits");
  check(contains(said(4, {{0, kLacking}}, {2}), "SwitchML: rank 2 of 4" + alive),
        "rank 0 has no library, and another rank never comes");
  check(contains(said(4, {{0, kLacking}}, {1, 2}), "SwitchML: ranks 1-2 of 4" + end),
        "rank 0 has no library, and others never come");
  check(lines.size() >= 29 && contains(lines.back(), "ranks 1-2 of 4 have not answered while"),
        "it names them as well");
  check(contains(said(4, {{3, kLacking}}, {0}), "SwitchML: rank 0 of 4" + alive),
        "a rank has no library, and rank 0 never comes");
  std::set<int> most;
  for (int rank = 1; rank < 79; ++rank) {
    most.insert(rank);
  }
  check(contains(said(80, {}, most), "SwitchML: ranks 1-78 of 80" + end), "almost all are missing");
  for (const int rank : {0, 1, 3}) {
    const auto who = "rank " + std::to_string(rank) + " of 4" + alive;
    check(contains(said(4, {{rank, {kAble}}}, {}), who), "one dies before it starts");
    check(contains(said(4, {{rank, {kAble, {}}}}, {}), who), "one dies before the probe");
  }
}

/// A rank comes after rank 0 has given up, which it reads at once.
void tooLate(std::uint64_t random, const std::map<int, std::vector<Capabilities>>& others) {
  std::map<std::string, Value> store;
  Attempt attempt(store, 3, random);
  std::vector<std::string> errors(3);
  attempt.run([&](int rank, const Exchange& exchange) {
    if (rank == 2) {
      thrown([&] { exchange.get("never", 3 * kTimeout); });
    }
    const auto begun = kClock.now();
    const auto own = others.count(rank) == 0 ? kAll : others.at(rank);
    errors[static_cast<std::size_t>(rank)] = join(exchange, rank, 3, own, 0).error;
    check(rank != 2 || kClock.now() == begun, "it waits for nothing");
  });
  check(contains(errors[0], "SwitchML: rank 2 of 3 did not answer") && errors[1] == errors[0] &&
            errors[2] == errors[0],
        "one error for all: " + errors[2]);
}

/// The Store of an attempt that was refused. Rank 0 comes later than the others, which read the
/// call of that attempt.
std::map<std::string, Value> refused(std::uint64_t random) {
  std::map<std::string, Value> store;
  Attempt attempt(store, 3, random);
  together(attempt, 3, random, {{2, {Capabilities::unable("disabled at first")}}});
  return store;
}

/// Each rank comes just before those that wait for it give up: their limits begin with the call.
void oneAfterTheOther(std::uint64_t random) {
  auto store = refused(random);
  Attempt attempt(store, 3, random);
  std::vector<Outcome> ranks(3);
  attempt.run([&](int rank, const Exchange& exchange) {
    auto own = exchange;
    int records = 0;
    if (rank == 1) {
      own.set = [&](const char* key, const Value& value) {
        check(++records <= 4, "one record for each call that it reads, and each round");
        exchange.set(key, value);
      };
    } else {
      thrown([&] { exchange.get("never", (rank == 0 ? 9 : 18) * kTimeout / 10); });
    }
    ranks[static_cast<std::size_t>(rank)] = join(own, rank, 3, kAll, 0);
  });
  agreed(ranks, "one after the other");
}

/// Rank 2 has read an earlier call, and goes on after rank 0 has given up, which it reads at once.
void tooLateForTheEarlierCall(std::uint64_t random) {
  auto store = refused(random);
  Attempt attempt(store, 3, random);
  attempt.run([&](int rank, const Exchange& exchange) {
    auto own = exchange;
    auto begun = kClock.now();
    if (rank == 0) {
      thrown([&] { exchange.get("never", kLag); });
    }
    if (rank == 2) {
      own.set = [&](const char* key, const Value& value) {
        if (kClock.now() < begun + kTimeout) {
          thrown([&] { exchange.get("never", 3 * kTimeout); });
          begun = kClock.now();
        }
        exchange.set(key, value);
      };
    }
    const auto error = join(own, rank, 3, kAll, 0).error;
    check(contains(error, "SwitchML: rank 2 of 3 did not answer"), error);
    check(rank != 2 || kClock.now() == begun, "it waits for nothing");
  });
}

/// Rank 0 refuses a value that has no place in memory, and so do the others if it is rank 0's own.
/// The `lacking` rank has no library.
void tooLarge(int sender, int lacking = -1) {
  std::map<std::string, Value> store;
  Attempt attempt(store, 3, 1);
  attempt.run([&](int rank, const Exchange& exchange) {
    auto own = exchange;
    own.set = [&](const char* key, const Value& value) {
      const bool answers = sender != 0 || contains(key, "/capabilities");
      exchange.set(key, rank == sender && answers ? Value(8'000'000, ',') : value);
    };
    const auto error = join(own, rank, 3, rank == lacking ? kLacking : kAll, 0).error;
    check(rank == sender || contains(error, "SwitchML: rank " + std::to_string(sender) +
                                                " of 3 did not answer while"),
          error);
    check(rank == sender || contains(error, "(its answer has 8000000 bytes, of at most "), error);
  });
}

/// Ranks whose own sources, or those of their caller, are others.
void otherSources() {
  std::map<std::string, Value> store;
  Attempt attempt(store, 3, 1);
  attempt.run([](int rank, const Exchange& exchange) {
    auto own = exchange;
    own.sources = rank == 1 ? "-other" : "";
    const auto out = join(own, rank, 3, kAll, 0);
    check(contains(out.last.detail,
                   "rank 1: switchml-patch with sources alone-other where rank 0 has alone") &&
              !out.last.able(),
          out.last.detail + out.error);
  });
  const auto all = switchml_delegate::decide({{{Ability::kAble, ""}, "one", {"a"}, false, "zeus"},
                                              {{Ability::kAble, ""}, "other", {"b"}, true}});
  check(!all.able() && all.required, "also the other rank may require SwitchML");
  check(all.detail.find("rank 1: switchml-patch") == 0, "it need not say its host: " + all.detail);
}

/// Terms differ in a value, also if both are of one length.
void otherTerms() {
  for (const std::string value : {"8", "16"}) {
    std::map<std::string, Value> store;
    Attempt attempt(store, 2, 1);
    const Capabilities first{Ability::kAble, "packet_numel=4 MIN=1", ""};
    const Capabilities other{Ability::kAble, "packet_numel=" + value + " MIN=1", ""};
    for (const auto& rank : together(attempt, 2, 0, {{0, {first}}, {1, {other}}})) {
      check(rank.last.detail == "rank 1: packet_numel=" + value + " where rank 0 has 4",
            rank.last.detail + rank.error);
    }
  }
}

/// A reason has the hosts of its ranks, if the group has several.
void hosts() {
  const auto said = [](const std::vector<std::string>& names, const std::set<int>& able) {
    std::map<std::string, Value> store;
    const auto size = static_cast<int>(names.size());
    Attempt attempt(store, size, 1);
    std::string reason;
    attempt.run([&](int rank, const Exchange& exchange) {
      const auto own = able.count(rank) == 0 ? Capabilities::unable("why") : kAble;
      const auto out = join(exchange, rank, size, {own}, 0, names[static_cast<std::size_t>(rank)]);
      check(out.last.host.empty(), "a decision is of no host");
      reason = out.last.detail;
    });
    return reason;
  };
  check(said({"a", "a", "a"}, {0}) == "ranks 1-2: why", "one host");
  check(said({"a", "b", "a"}, {0, 2}) == "rank 1 on b: why", "another host");
  check(said({"a", "a", "b"}, {1, 2}) == "rank 0 on a: why", "the host of rank 0");
  check(said({"a", "b", "b", "a"}, {0}) == "ranks 1-3 on a, b: why", "two hosts");
  check(said({"0", "1", "2", "3", "4", "5", "6"}, {0}) == "ranks 1-6 on 1, 2, 3, 4 and 2 more: why",
        "many hosts");
  const std::string tail(100, 'x');
  check(
      said({"a", "b c\nd\x7f\xff" + tail}, {0}) == "rank 1 on b?c?d??" + tail.substr(43) + ": why",
      "a name that is none");
  check(said({"a", ""}, {0}) == "rank 1 on ?: why", "no name");
}

/// A constant number for all ranks but one.
void accesses() {
  for (const int size : {2, 8, 64}) {
    std::map<std::string, Value> store;
    Attempt attempt(store, size, 1);
    agreed(together(attempt, size, 0), "accesses");
    for (int rank = 1; rank < size; ++rank) {
      check(attempt.accesses(rank) == 7, "three answers, the name of the call, three decisions");
    }
    check(store.size() == 2, "the name of the call, and the last decision, stay");
  }
}

void messages() {
  constexpr auto able = Ability::kAble, unable = Ability::kUnable, busy = Ability::kBusy,
                 later = Ability::kLater;
  const auto named = [](Ability kind, std::uint64_t group) {
    Capabilities out{kind, "", ""};
    out.firstDelegatingGroup = group;
    return out;
  };
  const auto kind = [](Ability first, Ability other) {
    return switchml_delegate::decide({{{first, ""}, "", {"a"}}, {{other, ""}, "", {"b"}}}).kind;
  };
  check(kind(able, able) == able, "all are able");
  check(kind(able, unable) == unable && kind(unable, able) == unable, "one is not");
  check(kind(busy, unable) == busy && kind(unable, busy) == busy && kind(able, busy) == busy,
        "one is busy");
  check(kind(later, able) == later && kind(unable, later) == later && kind(later, later) == later,
        "no group that the ranks have named");
  check(kind(later, busy) == busy && kind(busy, later) == busy, "another group delegates");
  for (const auto first : {able, unable, busy, later}) {
    for (const auto other : {able, unable, busy, later}) {
      const auto found = switchml_delegate::decide(
          {{named(first, 1), "", {"a"}, true}, {named(other, 2), "", {"b"}}});
      const bool delegates = first == busy || other == busy;
      check(found.kind == (delegates ? busy : unable) && found.forbidsGloo() == !delegates,
            "the ranks name different groups");
    }
  }
  constexpr auto runs = ContextState::kRunning, stopped = ContextState::kStopped;
  const auto context = [](ContextState one, ContextState other) {
    return switchml_delegate::decide({{{Ability::kAble, "", "", one}, "same", {"a"}},
                                      {{Ability::kAble, "", "", other}, "same", {"b"}}})
        .context;
  };
  check(context(runs, runs) == runs && context(stopped, stopped) == stopped, "those of all");
  check(context(runs, stopped) == ContextState::kMixed &&
            context(stopped, runs) == ContextState::kMixed,
        "some run");
  for (const auto one : {able, unable, busy, later, Ability::kMissing}) {
    for (const auto state : {stopped, runs, ContextState::kMixed}) {
      const auto read = Record::read(Record{{one, "", "", state}, "7", {"a"}}.write(), 1);
      check(read.kind == one && read.context == state, "each value is read as it was written");
    }
  }
  const Record made{{unable, "two\nlines, and  spaces\x1b", "", runs, false, 12},
                    "7",
                    {"a", "-", "b"},
                    true,
                    "zeus"};
  const auto back = Record::read(made.write(), 3);
  check(back.sources == "7" && back.nonces == made.nonces && back.kind == unable && back.required &&
            back.detail == "two?lines, and  spaces?" && back.context == runs &&
            back.host == "zeus" && back.firstDelegatingGroup == 12,
        "a message is read as it was written, in one line");
  const std::string much(5000, '\xe9');
  const auto bounded =
      Record::read(Record{{unable, much, "", runs}, much, {"a"}, true, much}.write(), 1);
  check(bounded.detail == std::string(4096, '?') && bounded.host == std::string(64, '?') &&
            bounded.sources == bounded.host,
        "it has an end");
  for (const char letter : {'\0', 'z'}) {
    const auto letters = std::string(1, letter) + '-' + letter;
    const auto value = "1 a, " + letters + "zeus words";
    const auto other = Record::read({value.begin(), value.end()}, 1);
    check(other.kind == unable && other.context == stopped, "letters of other sources");
  }
  const auto commas = "1 " + std::string(60'000, ',') + " y-s terms";
  check(Record::read({commas.begin(), commas.end()}, 2).nonces.size() == 2, "one for each rank");
  check(back.answers(2, "b") && !back.answers(1, "b") && !back.answers(3, "b"), "whom it answers");
  for (const std::string cut : {"", "1", "1 a,", "1 a, y", "1 a, y-", "1 , y-s terms"}) {
    thrown([&cut] {
      const auto read = Record::read({cut.begin(), cut.end()}, 1);
      check(cut == "1 , y-s terms" && !read.answers(0, "a"), "'" + cut + "' is no message");
    });
  }
}

/// A rank without the library reads its environment as one with it does.
void environments() {
  for (const char* const value : {"", "0", "1", "2", "07", "-1", "+1", " 1", "1 ", "1x", "two",
                                  "18446744073709551615", "18446744073709551616"}) {
    setenv("SWITCHML_GROUP", value, 1);
    setenv("SWITCHML_REQUIRE", value, 1);
    switchml_delegate::Settings settings;
    settings.read();
    const auto name = "'" + std::string(value) + "'";
    check(switchml_delegate::loader::firstDelegatingGroup() == settings.firstDelegatingGroup,
          name + " as a group");
    check(switchml_delegate::isSet("SWITCHML_REQUIRE") == (*value != '\0' && name != "'0'"),
          name + " as a switch");
  }
  unsetenv("SWITCHML_GROUP");
  unsetenv("SWITCHML_REQUIRE");
}

}  // namespace

/// `count` orders of accesses for each case, and ten times as many for restarts of the ranks.
int main(int arguments, char** words) {
  check(arguments == 2, "agreement COUNT");
  const std::uint64_t count = std::stoull(words[1]);
  environments();
  messages();
  accesses();
  otherSources();
  otherTerms();
  hosts();
  for (int sender = 0; sender < 3; ++sender) {
    for (const int lacking : {-1, 1, 2}) {
      tooLarge(sender, lacking);
    }
  }
  for (std::uint64_t random = 0; random < count; ++random) {
    missing(random);
    tooLate(random, {});
    tooLate(random, {{0, kLacking}});
    tooLate(random, {{2, kLacking}});
    oneAfterTheOther(random);
    tooLateForTheEarlierCall(random);
  }
  for (std::uint64_t random = 0; random < 10 * count; ++random) {
    attempts(2 + static_cast<int>(random % 3), random);
  }
  for (std::uint64_t random = 0; random < 3 * count; ++random) {
    again(2 + static_cast<int>(random % 3), random);
  }
  std::puts("ok");
  return 0;
}
