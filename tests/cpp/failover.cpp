// Failover with a library, and connections of the ranks, that are made up. `states`: each state of
// the ranks in which a failure can find them, as in tests/support/failover_model.py. `window`: jobs
// under way. `moments`: threads, and a library that dies at a random moment. `returns`: one that is
// started again, and dies again. `gone`: a rank ends with the library, or later.
#include "recover/failover.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "wires.hpp"

namespace {

using std::chrono::milliseconds;
using switchml_delegate::Element;
using switchml_delegate::Failover;
using switchml_delegate::FailoverCounters;
using switchml_delegate::goneText;
using switchml_delegate::ResumeRefusal;
using switchml_delegate::ResumeStep;
using switchml_delegate::Ring;
using switchml_delegate::Transfer;
using wires::Wires;

constexpr milliseconds kLimit = std::chrono::seconds(60);

/// The bits of a value as another type's.
template <typename To, typename From>
To as(From value) {
  To bits{};
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

std::uint64_t numelOf(std::uint64_t job) { return job % 3 == 2 ? 1 : 5 + job; }
Element elementOf(std::uint64_t job) { return job % 2 == 0 ? Element::kFloat32 : Element::kInt32; }

/// Floats whose sum depends on the order in which they are added.
std::int32_t wordOf(int rank, std::uint64_t job, std::uint64_t i) {
  if (elementOf(job) == Element::kInt32) {
    return static_cast<std::int32_t>(1000 * job + 10 * i) * (rank + 1);
  }
  return as<std::int32_t>(static_cast<float>(job + i + 1) * (rank % 2 == 0 ? 1e8F : 1.1F));
}

std::int32_t added(Element element, std::int32_t one, std::int32_t other) {
  if (element == Element::kInt32) {
    return one + other;
  }
  return as<std::int32_t>(as<float>(one) + as<float>(other));
}

/// The library's sum: in the order of the ranks.
std::vector<std::int32_t> sumOf(int ranks, std::uint64_t job) {
  std::vector<std::int32_t> sum(numelOf(job));
  for (std::uint64_t i = 0; i < sum.size(); ++i) {
    sum[i] = wordOf(0, job, i);
    for (int rank = 1; rank < ranks; ++rank) {
      sum[i] = added(elementOf(job), sum[i], wordOf(rank, job, i));
    }
  }
  return sum;
}

struct Rank;
using StepsOf = std::function<std::vector<ResumeStep>(Rank&)>;

/// A rank: the rows of its callers, and what the library has.
struct Rank {
  Rank(Wires& wires, int number, int size, std::uint64_t jobs, const StepsOf& stepsOf,
       milliseconds limit)
      : number(number), rows(jobs), memory(jobs), held(jobs) {
    for (std::uint64_t job = 0; job < jobs; ++job) {
      for (std::uint64_t i = 0; i < numelOf(job); ++i) {
        rows[job].push_back(wordOf(number, job, i));
      }
    }
    failover = std::make_unique<Failover>(
        wires.of(number), number, size, limit,
        Failover::Callbacks{[this](const std::string& /*reason*/) {
                              stopped = true;
                              onStop();
                            },
                            [this](void* to, const void* from, std::size_t bytes) {
                              onCopy(from);
                              std::memcpy(to, from, bytes);
                            },
                            [this](const std::string& line) { onSay(line); },
                            stepsOf ? stepsOf(*this) : never(), [this] { onResume(); },
                            /*firstAttempt=*/3},
        counters);
  }

  static std::vector<ResumeStep> never() {
    return {[](std::uint64_t /*seed*/) { return ResumeRefusal{"never", true}; }};
  }

  bool submit(std::uint64_t job, bool begins = true) {
    held[job] = failover->admit(job, begins, rows[job].size() * sizeof(std::int32_t));
    memory[job] = reinterpret_cast<std::int32_t*>(held[job].get());
    return memory[job] != nullptr;
  }

  /// The library has a sum, and the caller takes it.
  void finish(std::uint64_t job, const std::vector<std::int32_t>& sum) {
    std::copy(sum.begin(), sum.end(), memory[job]);
    check(failover->copyOut(job, rows[job].data()), "a sum is taken");
  }

  void goOverRing(std::initializer_list<std::uint64_t> jobs) {
    for (const auto job : jobs) {
      check(!submit(job), "a job goes over the ring");
      redo(job);
    }
  }

  void redo(
      std::uint64_t job, milliseconds limit = kLimit,
      const std::function<void()>& prepare = [] {}) {
    failover->redo(job, elementOf(job), rows[job].data(), rows[job].size(), limit, prepare);
  }

  const int number;
  std::vector<std::vector<std::int32_t>> rows;
  std::vector<std::int32_t*> memory;
  std::vector<Failover::Memory> held;  // which that is in
  std::atomic<bool> stopped{false};
  std::function<void()> onStop = [] {};
  std::function<void()> onResume = [] {};
  std::function<void(const std::string& line)> onSay = [](const std::string& /*line*/) {};
  std::function<void(const void* from)> onCopy = [](const void* /*from*/) {};
  FailoverCounters counters;
  std::unique_ptr<Failover> failover;
};

/// Ranks with wires between them.
struct Ranks {
  Ranks(int size, std::uint64_t jobs, const StepsOf& stepsOf = {}, milliseconds limit = kLimit)
      : wires(size) {
    for (int rank = 0; rank < size; ++rank) {
      all.push_back(std::make_unique<Rank>(wires, rank, size, jobs, stepsOf, limit));
    }
  }

  Rank& operator[](std::size_t rank) const { return *all[rank]; }

  Wires wires;
  std::vector<std::unique_ptr<Rank>> all;
};

/// All ranks have the same bits, and those of integers are right whatever the order.
void checkSums(const Ranks& ranks, const std::string& where) {
  const auto size = static_cast<int>(ranks.all.size());
  for (std::uint64_t job = 0; job < ranks[0].rows.size(); ++job) {
    const auto& first = ranks[0].rows[job];
    for (const auto& rank : ranks.all) {
      check(rank->rows[job] == first, where + ": ranks have other sums of a job");
    }
    const auto sum = sumOf(size, job);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      if (elementOf(job) == Element::kInt32) {
        check(first[i] == sum[i], where + ": a wrong sum");
      } else {
        const auto right = as<float>(sum[i]);
        check(std::abs(as<float>(first[i]) - right) <= 1e-6F * std::abs(right),
              where + ": a wrong sum of floats");
      }
    }
  }
}

/// Calls a function with each rank at the same time.
template <typename Function>
void forEach(const Ranks& ranks, const Function& function) {
  inThreads(ranks.all.size(), [&](std::size_t number) { function(ranks[number]); });
}

/// Fails if that takes about as long as any limit.
template <typename Function>
void forEachSoon(const Ranks& ranks, const Function& function, milliseconds limit = kLimit / 3) {
  const auto begun = std::chrono::steady_clock::now();
  forEach(ranks, function);
  check(std::chrono::steady_clock::now() - begun < limit, "nobody waits for long");
}

/// One step, after which the rank returns.
std::vector<ResumeStep> returning(Rank& rank) {
  return {[&rank](std::uint64_t /*seed*/) {
    rank.stopped = false;
    return ResumeRefusal{};
  }};
}

// ---- all states ---------------------------------------------------------------------------------

enum class Kind { kSubmit, kTouch, kFinish };
struct Event {
  Kind kind;
  std::size_t rank;
  std::uint64_t job;
};

/// How far a rank has come; `touched` are the jobs whose memory has something of the sum.
struct Progress {
  std::uint64_t submitted = 0;
  std::uint64_t finished = 0;
  std::set<std::uint64_t> touched;

  bool operator<(const Progress& other) const {
    return std::tie(submitted, finished, touched) <
           std::tie(other.submitted, other.finished, other.touched);
  }
};
using State = std::vector<Progress>;

std::vector<std::pair<State, Event>> steps(const State& state, std::uint64_t jobs) {
  std::vector<std::pair<State, Event>> after;
  auto ready = jobs;
  for (const auto& rank : state) {
    ready = std::min(ready, rank.submitted);
  }
  const auto add = [&](Event event, const auto& change) {
    auto next = state;
    change(next[event.rank]);
    after.emplace_back(std::move(next), event);
  };
  for (std::size_t r = 0; r < state.size(); ++r) {
    const auto& rank = state[r];
    if (rank.submitted < jobs && rank.submitted - rank.finished < Failover::kWindow) {
      add({Kind::kSubmit, r, rank.submitted}, [](Progress& own) { ++own.submitted; });
    }
    for (auto job = rank.finished; job < std::min(ready, rank.submitted); ++job) {
      if (rank.touched.count(job) == 0) {
        add({Kind::kTouch, r, job}, [job](Progress& own) { own.touched.insert(job); });
      }
    }
    if (rank.touched.count(rank.finished) != 0) {
      add({Kind::kFinish, r, rank.finished},
          [](Progress& own) { own.touched.erase(own.finished++); });
    }
  }
  return after;
}

void replay(const Ranks& ranks, const std::vector<Event>& events) {
  for (const auto& event : events) {
    auto& rank = ranks[event.rank];
    const auto sum = sumOf(static_cast<int>(ranks.all.size()), event.job);
    if (event.kind == Kind::kSubmit) {
      check(rank.submit(event.job), "a job is admitted before the failure");
    } else if (event.kind == Kind::kTouch) {
      rank.memory[event.job][0] = sum[0];
    } else {
      rank.finish(event.job, sum);
      check(rank.rows[event.job] == sum, "the caller has the sum");
    }
  }
}

/// Writes what the library may still write after the failure, wherever it may.
void writeLate(Rank& rank, const Progress& progress) {
  for (auto job = progress.finished; job < progress.submitted; ++job) {
    std::fill_n(rank.memory[job], rank.rows[job].size(), -1);
  }
}

void recoverFrom(const State& state, const std::vector<Event>& events, std::uint64_t jobs,
                 std::size_t number) {
  const auto size = state.size();
  Ranks ranks(size, jobs);
  replay(ranks, events);
  ranks[number % size].failover->suspend("the library died");
  if (number % 3 == 0) {
    ranks[(number + 1) % size].failover->suspend("here as well");
  }
  forEach(ranks, [&](Rank& rank) {
    const auto& mine = state[static_cast<std::size_t>(rank.number)];
    until([&] { return rank.stopped.load(); });
    writeLate(rank, mine);
    check(!(mine.finished < mine.submitted &&
            rank.failover->copyOut(mine.finished, rank.rows[mine.finished].data())),
          "no sum is taken after the failure");
    for (auto job = mine.finished; job < jobs; ++job) {
      check(job < mine.submitted || !rank.submit(job), "nothing is admitted any more");
      rank.redo(job);
    }
    check(rank.counters.failovers == 1 && rank.counters.seconds() >= 0 &&
              rank.counters.redone == mine.submitted - mine.finished,
          "the counters");
    for (const auto& memory : rank.held) {
      check(mine.finished == jobs || memory == nullptr ||
                memory.use_count() == std::count(rank.held.begin(), rank.held.end(), memory),
            "no memory is kept for sums of the library");
    }
  });
  checkSums(ranks, "state " + std::to_string(number));
}

/// One rank aborts: all others throw, also those that would need a sum of that rank.
void abortFrom(int size, const std::vector<Event>& events, std::uint64_t jobs, int number) {
  Ranks ranks(size, jobs);
  replay(ranks, events);
  ranks[number % size].failover->abort("a sum was dropped");
  forEach(ranks, [&](Rank& rank) {
    const bool gone = rank.number == number % size;
    until([&] { return gone || rank.stopped; });
    const auto error = thrown([&] { rank.redo(jobs - 1); });
    const auto expected = gone ? "a sum was dropped" : goneText(number % size);
    check(error.find(expected) != std::string::npos, error);
  });
}

void visitStates(std::size_t size, std::uint64_t jobs) {
  std::map<State, std::vector<Event>> found{{State(size), {}}};
  std::deque<State> left{State(size)};
  std::size_t number = 0;
  for (; !left.empty(); ++number) {
    const auto state = left.front();
    left.pop_front();
    const auto events = found.at(state);
    recoverFrom(state, events, jobs, number);
    abortFrom(static_cast<int>(size), events, jobs, static_cast<int>(number));
    for (auto& [after, event] : steps(state, jobs)) {
      auto longer = events;
      longer.push_back(event);
      if (found.emplace(after, std::move(longer)).second) {
        left.push_back(after);
      }
    }
  }
  check(number > 100, "there are so many states");
}

// ---- a random moment ----------------------------------------------------------------------------

/// Library that dies, and may be started again. A session sums what all ranks have submitted to it.
class Library {
 public:
  /// `left`: sums for a rank until the first session dies.
  Library(std::size_t ranks, std::uint64_t left, unsigned seed) : ranks_(ranks), random_(seed) {
    sessions_[0].left = left;
  }

  void watch(Rank& rank) {
    rank.onStop = [this] {
      std::lock_guard<std::mutex> lock(mutex_);
      changed_.notify_all();
    };
  }

  /// Steps of a rank, which may fail. The ranks take them together.
  std::vector<ResumeStep> stepsOf(Rank& rank) {
    watch(rank);
    return {[this, &rank](std::uint64_t /*seed*/) {
              std::lock_guard<std::mutex> lock(mutex_);
              check(rank.stopped, "the context has stopped before a resume attempt");
              auto& own = of(rank);
              for (const auto& [job, memory] : own.underWay) {  // until it has stopped
                std::fill_n(memory, rank.rows[job].size(), -1);
              }
              own.underWay.clear();
              return chance("has not stopped");
            },
            [this, &rank](std::uint64_t seed) {
              std::lock_guard<std::mutex> lock(mutex_);
              auto& own = of(rank);
              own.seed = seed;
              if (sessions_.count(++own.session) == 0) {
                sessions_[own.session].left = 1 + random_() % (ranks_ * 20);
              }
              auto refusal = chance("does not start");
              rank.stopped = !refusal.reason.empty();
              return refusal;
            },
            [this, &rank](std::uint64_t seed) {
              std::lock_guard<std::mutex> lock(mutex_);
              check(of(rank).seed == seed, "one seed in an attempt");
              auto& session = sessions_[of(rank).session];
              check(session.seed == 0 || session.seed == seed, "the same seed on all ranks");
              session.seed = seed;
              return chance("wrong sums");
            }};
  }

  void submit(std::uint64_t job, Rank& rank) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto& own = of(rank);
    own.underWay[job] = rank.memory[job];
    own.places[job] = own.session;
    sessions_[own.session].rows[job][rank.number] = rank.rows[job];
    changed_.notify_all();
  }

  /// False when it has died, which all ranks see or one alone, and when the rank has stopped it.
  bool wait(std::uint64_t job, Rank& rank) {
    std::unique_lock<std::mutex> lock(mutex_);
    auto& session = sessions_[of(rank).places.at(job)];
    const auto& rows = session.rows[job];
    changed_.wait(lock, [&] {
      return rank.stopped || session.dead || (rows.size() == ranks_ && session.left > 0);
    });
    if (rank.stopped || session.dead) {
      return false;
    }
    auto sum = rows.at(0);
    for (std::size_t other = 1; other < ranks_; ++other) {
      const auto& row = rows.at(static_cast<int>(other));
      std::transform(sum.begin(), sum.end(), row.begin(), sum.begin(),
                     [job](auto one, auto two) { return added(elementOf(job), one, two); });
    }
    if (--session.left == 0) {
      rank.memory[job][0] = sum[0];
      session.dead = random_() % 2 == 0;
      changed_.notify_all();
      return false;
    }
    std::copy(sum.begin(), sum.end(), rank.memory[job]);
    of(rank).underWay.erase(job);
    return true;
  }

 private:
  struct Session {
    std::uint64_t left = 0;  // sums for a rank until it dies
    bool dead = false;       // and all ranks see that
    std::uint64_t seed = 0;
    std::map<std::uint64_t, std::map<int, std::vector<std::int32_t>>> rows;
  };
  struct Context {
    std::uint64_t session = 0;
    std::uint64_t seed = 0;
    std::map<std::uint64_t, std::int32_t*> underWay;
    std::map<std::uint64_t, std::uint64_t> places;
  };

  Context& of(const Rank& rank) { return contexts_[rank.number]; }

  ResumeRefusal chance(const char* reason) { return {random_() % (6 * ranks_) == 0 ? reason : ""}; }

  const std::size_t ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Session> sessions_;
  std::map<int, Context> contexts_;
  std::mt19937 random_;
};

/// Calls of one to four jobs, which two threads of a rank take in their order: each has two jobs
/// under way, as those of the delegate.
class Callers {
 public:
  Callers(Rank& rank, Library& library, unsigned seed) : rank_(rank), library_(library) {
    std::mt19937 random(seed);  // the same on all ranks
    for (std::uint64_t job = 0; job < rank.rows.size();) {
      job = std::min<std::uint64_t>(job + 1 + random() % 4, rank.rows.size());
      ends_.push_back(job);
    }
  }

  void run(unsigned seed) {
    std::mt19937 random(seed);
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      if (taken_ == ends_.size()) {
        return;
      }
      const auto first = taken_ == 0 ? 0 : ends_[taken_ - 1];
      const auto last = ends_[taken_++];
      lock.unlock();
      auto oldest = first;
      for (auto job = first; job < last; ++job) {
        lock.lock();
        changed_.wait(lock, [&] { return turn_ == job; });
        lock.unlock();
        if (random() % 8 == 0) {
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
        }
        if (rank_.submit(job, job == first)) {
          library_.submit(job, rank_);
        }
        lock.lock();
        ++turn_;
        lock.unlock();
        changed_.notify_all();
        if (job + 1 - oldest == 2) {
          finish(oldest++);
        }
      }
      while (oldest < last) {
        finish(oldest++);
      }
    }
  }

 private:
  void finish(std::uint64_t job) {
    if (rank_.memory[job] != nullptr) {
      if (library_.wait(job, rank_)) {
        if (rank_.failover->copyOut(job, rank_.rows[job].data())) {
          return;
        }
      } else {
        rank_.failover->suspend("the library died");
      }
    }
    rank_.redo(job);
  }

  Rank& rank_;
  Library& library_;
  std::vector<std::uint64_t> ends_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t taken_ = 0;
  std::uint64_t turn_ = 0;
};

/// All ranks sum all their jobs through a library, each in two threads.
void callAll(const Ranks& ranks, Library& library, std::mt19937& random) {
  const auto calls = static_cast<unsigned>(random());
  forEach(ranks, [&](Rank& rank) {
    Callers callers(rank, library, calls);
    inThreads(2, [&](std::size_t thread) {
      callers.run(calls + 2 * static_cast<unsigned>(rank.number) + static_cast<unsigned>(thread));
    });
  });
}

void failAtMoments(unsigned seeds) {
  constexpr std::uint64_t kJobs = 12;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    std::mt19937 random(seed);
    const auto size = 2 + random() % 4;
    const auto left = 1 + random() % (size * kJobs + 1);
    Library library(size, left, static_cast<unsigned>(random()));
    Ranks ranks(size, kJobs, [&library](Rank& rank) {
      library.watch(rank);
      return Rank::never();
    });
    callAll(ranks, library, random);
    checkSums(ranks, "seed " + std::to_string(seed));
    for (const auto& rank : ranks.all) {
      check(rank->counters.failovers == (left <= size * kJobs ? 1 : 0), "failovers");
    }
  }
}

/// The ranks return again and again, and none of them alone.
void returnRepeatedly(unsigned seeds) {
  constexpr std::uint64_t kJobs = 120;
  std::uint64_t returns = 0;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    std::mt19937 random(seed);
    const auto size = 2 + random() % 3;
    Library library(size, 1 + random() % (size * 20), static_cast<unsigned>(random()));
    Ranks ranks(size, kJobs, [&library](Rank& rank) { return library.stepsOf(rank); });
    callAll(ranks, library, random);
    checkSums(ranks, "seed " + std::to_string(seed));
    const auto& first = ranks[0].counters;
    for (const auto& rank : ranks.all) {
      check(rank->counters.resumes == first.resumes, "all return, or none");
    }
    check(first.failovers == first.resumes || first.failovers == first.resumes + 1, "failovers");
    returns += first.resumes;
  }
  check(returns > seeds, "there are so many returns");
}

/// The first resume attempt is at call `firstAttempt`, and each later one at twice as many calls,
/// while a rank refuses.
void attemptLater() {
  const std::vector<std::uint64_t> expected{3, 6, 12, 24, 48, 96, 192, 384};
  std::array<std::uint64_t, 2> calls{};
  std::array<std::vector<std::uint64_t>, 2> attempts;
  Ranks ranks(2, expected.back(), [&](Rank& rank) {
    return std::vector<ResumeStep>{[&](std::uint64_t /*seed*/) {
      const auto number = static_cast<std::size_t>(rank.number);
      attempts.at(number).push_back(calls.at(number));
      return ResumeRefusal{attempts.at(number).size() == expected.size() ? "" : "not yet"};
    }};
  });
  ranks[0].failover->suspend("the library died");
  forEach(ranks, [&](Rank& rank) {
    until([&] { return rank.stopped.load(); });
    auto& call = calls.at(static_cast<std::size_t>(rank.number));
    for (call = 1; call < expected.back(); ++call) {
      rank.goOverRing({call - 1});
    }
    check(rank.submit(call - 1), "the ranks return at last");
    rank.finish(call - 1, sumOf(2, call - 1));
  });
  check(attempts[0] == expected && attempts[1] == expected, "the calls of the resume attempts");
  checkSums(ranks, "refused resume attempts");
}

/// A caller that still copies its sum has the right one, also where the others have returned since.
void copySlowly() {
  constexpr std::uint64_t kJobs = 5;  // the last has the slot of the first
  Ranks ranks(2, kJobs, returning);
  for (const auto& rank : ranks.all) {
    check(rank->submit(0) && rank->submit(1), "jobs are admitted before the failure");
  }
  auto& slow = ranks[0];
  std::atomic<bool> copies{false};
  std::atomic<bool> released{false};
  slow.onCopy = [&, memory = slow.memory[0]](const void* from) {
    copies = copies || from == memory;
    until([&] { return from != memory || released; });
  };
  std::thread copying([&] { slow.finish(0, sumOf(2, 0)); });
  until([&] { return copies.load(); });
  ranks[1].finish(0, sumOf(2, 0));
  slow.failover->suspend("the library died");
  std::thread releasing([&released] {
    std::this_thread::sleep_for(milliseconds(100));
    released = true;
  });
  forEach(ranks, [](Rank& rank) {
    rank.redo(1);
    rank.goOverRing({2});
    check(rank.submit(3) && rank.submit(4), "jobs are admitted after the return");
    rank.finish(3, sumOf(2, 3));
    rank.finish(4, sumOf(2, 4));
  });
  copying.join();
  releasing.join();
  checkSums(ranks, "a slow copy");
}

/// Nothing is done to an input while another rank may take a sum of it from its library.
void prepareBehindTheRing() {
  Ranks ranks(2, 1);
  std::atomic<bool> released{false};
  std::atomic<bool> prepared{false};
  ranks[1].onStop = [&released] { until([&] { return released.load(); }); };
  ranks[0].failover->suspend("the library died");
  std::thread preparing([&] { ranks[0].redo(0, kLimit, [&prepared] { prepared = true; }); });
  std::this_thread::sleep_for(milliseconds(20));
  check(!prepared, "the other rank has not stopped");
  released = true;
  ranks[1].redo(0);
  preparing.join();
  check(prepared, "an input before it is summed");
  checkSums(ranks, "a prepared input");
}

/// A rank has returned, and failed again, before the others have.
void failBeforeOthersReturn() {
  Ranks ranks(2, 4, returning);
  ranks[1].onResume = [&first = ranks[0]] {
    until([&first] { return first.counters.failovers >= 2; });
    std::this_thread::sleep_for(milliseconds(50));  // until its warning is here
  };
  ranks[0].failover->suspend("the library died");
  forEach(ranks, [](Rank& own) {
    until([&] { return own.stopped.load(); });
    own.goOverRing({0, 1});
    own.submit(2);
    if (own.number == 0) {
      own.failover->suspend("again");
    }
    own.redo(2);
    own.redo(3);
  });
  checkSums(ranks, "a second failure in a return");
}

/// A group that is closed when its ranks have just agreed to return does not say that it has.
void closeInReturn() {
  Ranks ranks(2, 3, returning);
  auto& closed = ranks[0];
  std::string said;
  closed.onSay = [&said](const std::string& line) { said += line; };
  closed.onResume = [&closed] { closed.failover->close("aborted"); };
  closed.failover->suspend("the library died");
  forEach(ranks, [](Rank& rank) {
    until([&] { return rank.stopped.load(); });
    rank.goOverRing({0, 1});
    check(rank.submit(2) == (rank.number != 0), "all ranks return but the closed one");
  });
  check(said.find("goes over Gloo") != std::string::npos, "it says that it has failed");
  check(said.find("returns") == std::string::npos, "it does not return: " + said);
}

/// The same where it is closed when the last message of the agreement has arrived.
void closeBeforeReturn() {
  Ranks ranks(2, 3, returning);
  auto& closed = ranks[0];
  closed.onResume = [] { check(false, "a closed group does not return"); };
  closed.failover->suspend("the library died");
  forEach(ranks, [&closed](Rank& rank) {
    until([&] { return rank.stopped.load(); });
    rank.goOverRing({0, 1});
    if (&rank == &closed) {
      Wires::onArrival = [&closed, waits = 2 * returning(closed).size()]() mutable {
        if (--waits == 0) {
          closed.failover->close("aborted");
        }
      };
    }
    check(rank.submit(2) == (rank.number != 0), "all ranks return but the closed one");
  });
}

/// A group that ends while its ranks go over the ring says so once, also at the end of a process.
void endOverRing(void (Failover::*end)(const std::string&)) {
  Ranks ranks(2, 1);
  auto& first = ranks[0];
  std::mutex mutex;  // the warning may still be said
  std::string said;
  first.onSay = [&](const std::string& line) {
    const std::lock_guard<std::mutex> lock(mutex);
    said += line + "\n";
  };
  first.failover->suspend("the library died");
  forEach(ranks, [](Rank& rank) { rank.redo(0); });
  first.counters.calls += 3;
  ((*first.failover).*end)("the process is exiting");
  check(first.counters.startedAtMs == 0, "no time is counted any more");
  first.failover->leave();
  const std::string line = "the process is exiting; 3 allreduces went over Gloo, in ";
  const std::string any = "went over Gloo, in ";
  check(said.find(line) != std::string::npos && said.find(any) == said.rfind(any), said);
}

// ---- ranks that are gone ------------------------------------------------------------------------

/// All of the others say which one, whichever fails first.
void loseRank(int size, int gone) {
  Ranks ranks(size, 2);
  ranks.wires.cut(gone);
  ranks[gone].failover->close("dead");
  for (const auto& rank : ranks.all) {
    check(rank->number == gone || rank->submit(0), "a job is admitted");
  }
  forEach(ranks, [gone](Rank& rank) {
    if (rank.number != gone) {
      rank.failover->suspend("the library died");
      const auto error = thrown([&] { rank.redo(0); });
      check(error.find(goneText(gone)) != std::string::npos, error);
    }
  });
}

/// The network of the messages is lost, with the switch or later, and no connection closes.
void loseNetwork(int size, bool later) {
  constexpr auto kShort = milliseconds(3000);
  Ranks ranks(size, 2, {}, kShort);
  ranks[0].failover->suspend("the library died");
  if (later) {
    forEachSoon(ranks, [](Rank& rank) {
      until([&] { return rank.stopped.load(); });
      rank.redo(0);
    });
  }
  ranks.wires.silence();
  forEachSoon(
      ranks,
      [&](Rank& rank) {
        rank.failover->suspend("here as well");
        const auto error = thrown([&] { rank.redo(later ? 1 : 0, kShort); });
        check(error.find("the ranks cannot go on over Gloo: rank ") != std::string::npos, error);
        const auto gone = goneText((rank.number + size - 1) % size, "no answer came");
        check(!later || error.find(gone) != std::string::npos, error);
      },
      5 * kShort);
}

/// Nothing is heard of one rank, and no connection closes: all others say which one.
void muteRank(int size, int mute, bool later) {
  constexpr auto kShort = milliseconds(3000);
  Ranks ranks(size, 2, {}, kShort);
  if (later) {
    ranks[0].failover->suspend("the library died");
    forEachSoon(ranks, [](Rank& rank) { rank.redo(0); });
  }
  ranks.wires.mute(mute);
  forEachSoon(ranks, [&](Rank& rank) {
    rank.failover->suspend("the library died");
    if (rank.number == (mute + 1) % size) {
      std::this_thread::sleep_for(kShort / 5);  // the others wait for this one already
    }
    const auto error = thrown([&] { rank.redo(later ? 1 : 0, kShort); });
    check(rank.number == mute || error.find(goneText(mute)) != std::string::npos, error);
  });
}

/// Moments at which a rank aborts, or its process ends.
enum class Moment { kStop, kRing, kSum, kStep, kReturn, kHalf };

/// A rank aborts while the others recover, sum over the ring, or use the context again; or its
/// process ends when half of a message has been sent. All others say at once which rank is gone.
void abortLater(int size, int gone, Moment moment) {
  std::atomic<int> summed{0};
  Ranks ranks(size, 3, [&](Rank& rank) {
    return std::vector<ResumeStep>{[&](std::uint64_t /*seed*/) {
      if (rank.number == gone && moment == Moment::kStep) {
        until([&] { return summed >= 2 * size; });
        rank.failover->abort("it was dropped");
      }
      rank.stopped = false;
      return ResumeRefusal{};
    }};
  });
  auto& first = ranks[gone];
  const auto abort = [&first] { first.failover->abort("it was dropped"); };
  (moment == Moment::kStop ? first.onStop : first.onResume) =
      moment == Moment::kStop || moment == Moment::kReturn ? std::function<void()>(abort) : [] {};
  std::atomic<int> waiting{0};
  const auto isGone = [&](Rank& rank, std::uint64_t job) {
    ++waiting;
    const auto error = thrown([&] { rank.redo(job); });
    const auto name = goneText(gone);
    check(error.find(rank.number == gone ? "it was dropped" : name) != std::string::npos, error);
  };
  ranks[(gone + 1) % size].failover->suspend("the library died");
  forEachSoon(ranks, [&](Rank& rank) {
    until([&] { return rank.stopped.load(); });
    if (moment == Moment::kStop) {
      isGone(rank, 0);
      return;
    }
    rank.goOverRing({0});
    ++summed;
    if (moment == Moment::kRing || moment == Moment::kSum || moment == Moment::kHalf) {
      if (rank.number == gone) {
        until([&] { return summed >= size && (moment == Moment::kRing || waiting + 1 >= size); });
        std::this_thread::sleep_for(milliseconds(20));
        if (moment == Moment::kHalf) {
          ranks.wires.cut(gone, switchml_delegate::kRecoveries);
          return;
        }
        abort();
      }
      isGone(rank, 1);
      return;
    }
    rank.goOverRing({1});
    ++summed;
    if (rank.submit(2)) {
      check(moment == Moment::kReturn, "nobody returns alone");
      until([&] { return rank.stopped.load(); });
      check(!rank.failover->copyOut(2, rank.rows[2].data()), "no sum is taken");
    }
    isGone(rank, 2);
  });
}

/// The connection to the successor closes when half of a message has been sent.
void endInMessage() {
  Wires wires(3);
  switchml_delegate::RingCollectives ring(wires.of(0), switchml_delegate::kRecoveries, 0, 3);
  int value = 7;
  std::thread closing([&wires] {
    std::this_thread::sleep_for(milliseconds(20));
    wires.cut(1, switchml_delegate::kRecoveries);
  });
  const auto error = thrown([&] { ring.broadcast(0, &value, sizeof value, kLimit); });
  check(error == "rank 1 is gone (its connection has closed)", error);
  closing.join();
}

/// A rank whose neighbour has gone sends the rest of its message before it says so.
void loseInMessage() {
  std::atomic<bool> sent{false};
  Ring wires;
  wires.send = [&sent](unsigned /*channel*/, const void* /*data*/, std::size_t /*bytes*/) {
    return Transfer{[&sent](milliseconds /*limit*/) {
                      std::this_thread::sleep_for(milliseconds(20));
                      return sent = true;
                    },
                    [] {}};
  };
  wires.receive = [](unsigned /*channel*/, void* /*data*/, std::size_t /*bytes*/) {
    return Transfer{[](milliseconds /*limit*/) -> bool { throw std::runtime_error("closed"); },
                    [] {}};
  };
  switchml_delegate::RingCollectives ring(wires, switchml_delegate::kRecoveries, 0, 3);
  const auto error = thrown([&] { ring.gather(7, kLimit); });
  check(error == "rank 2 is gone (closed)", error);
  check(sent, "the message to the successor is sent");
}

/// A rank that ends with its last message spoils no message of the others: neither that message,
/// which is looked at late, nor the one that passes it on.
void endAfterLastMessage() {
  constexpr auto kLate = milliseconds(400);
  Wires wires(3);
  std::vector<std::unique_ptr<switchml_delegate::RingCollectives>> rings;
  for (int rank = 0; rank < 3; ++rank) {
    rings.push_back(std::make_unique<switchml_delegate::RingCollectives>(
        wires.of(rank), switchml_delegate::kRecoveries, rank, 3));
  }
  std::array<int, 3> values{7, 0, 0};
  const auto broadcast = [&](std::size_t rank) {
    rings[rank]->broadcast(0, &values.at(rank), sizeof(int), kLimit);
  };
  wires.lag(kLate);
  std::thread first(broadcast, 0);
  std::thread second(broadcast, 1);
  std::this_thread::sleep_for(kLate / 2);
  wires.cut(0);
  for (int i = 0; i < 2; ++i) {
    rings[1]->losePredecessor();
    std::this_thread::sleep_for(6 * kLate);
  }
  broadcast(2);
  first.join();
  second.join();
  check(values[1] == 7 && values[2] == 7, "all have the message");
}

/// A thread that waits for the other ranks, or for the window, throws when the group is aborted.
void abortGroup() {
  Ranks ranks(2, 3);
  auto& rank = ranks[0];
  check(rank.submit(0) && rank.submit(1), "jobs are admitted");
  std::thread waiting([&rank] { check(!rank.submit(2), "no third job"); });
  std::thread redoing([&rank] {
    const auto error = thrown([&] { rank.redo(0); });
    check(error == "aborted", "a sum without the other rank: " + error);
  });
  std::this_thread::sleep_for(milliseconds(20));
  rank.failover->close("aborted");
  waiting.join();
  redoing.join();
}

/// A rank whose context cannot be stopped leaves nobody waiting.
void failToStop() {
  Ranks ranks(2, 1);
  ranks[0].onStop = [] { throw std::bad_alloc(); };
  ranks[0].failover->suspend("the library died");
  for (const auto& rank : ranks.all) {
    const auto error = thrown([&] { rank->redo(0); });
    check(error.find("bad_alloc") != std::string::npos, "a sum without that rank: " + error);
  }
}

/// The reason in a final warning is printed as one line, whatever a rank sends.
void hearNoise() {
  Ranks ranks(2, 1);
  std::array<char, 256> noise{};
  std::fill(noise.begin() + sizeof(std::int32_t), noise.end(), '\x1b');
  check(
      ranks.wires.of(0).send(switchml_delegate::kWarnings, noise.data(), noise.size()).wait(kLimit),
      "");
  for (const auto& rank : ranks.all) {
    const auto error = thrown([&] { rank->redo(0); });
    check(error == "the ranks cannot go on over Gloo: " +
                       std::string(rank->number == 0 ? 250 : 251, '?'),
          error);
  }
}

/// A message that arrives after its sum timed out is not written to the memory of that sum: a
/// sanitizer would report it.
void timeOutSum() {
  Ranks ranks(2, 1);
  ranks[0].failover->suspend("the library died");
  for (const auto& rank : ranks.all) {
    std::thread([&rank] {
      const auto error = thrown([&] { rank->redo(0, milliseconds(20)); });
      check(error.find("rank 1 is gone (no answer came)") != std::string::npos,
            "a sum without the other rank: " + error);
    }).join();
  }
}

/// A rank has two jobs under way at most, and gives the sums to their callers in order.
void keepWindow() {
  Ranks ranks(2, 4);
  auto& rank = ranks[0];
  std::atomic<int> admitted{0};
  std::thread submitting([&] {
    for (std::uint64_t job = 0; job < 4; ++job) {
      check(rank.submit(job), "a job is admitted");
      ++admitted;
    }
  });
  std::atomic<int> taken{0};
  const auto take = [&](std::uint64_t job) {
    check(rank.failover->copyOut(job, rank.rows[job].data()), "a sum is taken");
    ++taken;
  };
  until([&] { return admitted >= 2; });
  std::this_thread::sleep_for(milliseconds(50));
  check(admitted == 2, "two jobs are under way");
  std::thread second(take, 1);
  std::this_thread::sleep_for(milliseconds(50));
  check(taken == 0 && admitted == 2, "the first sum comes first");
  take(0);
  second.join();
  submitting.join();
}

/// The connections stay while a message over them begins, also if no thread waits for it yet.
void releaseInExchange() {
  struct Connections {
    std::atomic<bool> used{false};
    ~Connections() { check(!used, "connections that are used are not released"); }
  };
  std::promise<void> begun;
  Ring ring;
  ring.receive = [&begun, connections = std::make_shared<Connections>()](
                     unsigned /*channel*/, void* /*data*/, std::size_t /*bytes*/) {
    const auto own = connections.get();
    own->used = true;
    begun.set_value();
    std::this_thread::sleep_for(milliseconds(50));
    own->used = false;
    return Transfer{[](milliseconds /*limit*/) { return true; }, [] {}};
  };
  ring.send = [](unsigned /*channel*/, const void* /*data*/, std::size_t /*bytes*/) {
    return Transfer{[](milliseconds /*limit*/) { return true; }, [] {}};
  };
  switchml_delegate::RingCollectives collectives(std::move(ring), switchml_delegate::kRecoveries, 0,
                                                 2);
  const auto connect = [&] { return thrown([&] { collectives.connect(kLimit); }); };
  std::thread connecting([&] { check(!connect().empty(), "the collective ends"); });
  begun.get_future().wait();
  collectives.release();
  connecting.join();
  check(!connect().empty(), "no collective begins after that");
}

/// A group that ends while a thread suspends it has its connections until the warning is sent.
void leaveInSuspend() {
  Wires wires(2);
  FailoverCounters counters;
  std::atomic<bool> sent{false};
  std::promise<void> stopping;
  auto ring = wires.of(0);
  ring.send = [&sent, send = ring.send](unsigned channel, const void* data, std::size_t bytes) {
    sent = true;
    return send(channel, data, bytes);
  };
  Failover failover(
      ring, 0, 2, kLimit,
      {[&stopping](const std::string& /*reason*/) {
         stopping.set_value();
         std::this_thread::sleep_for(milliseconds(50));
       },
       [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); },
       [](const std::string& /*line*/) {}},
      counters);
  std::thread suspending([&failover] { failover.suspend("the library died"); });
  stopping.get_future().wait();
  failover.leave();
  check(sent, "the warning is sent before the connections are released");
  suspending.join();
}

/// A rank that ends before the others is no failure of theirs.
void endEarly() {
  Ranks ranks(2, 1);
  check(ranks[0].submit(0), "a job is admitted");
  ranks[1].failover->leave();
  ranks.wires.cut(1);
  std::this_thread::sleep_for(milliseconds(20));
  ranks[0].finish(0, sumOf(2, 0));
  check(ranks[0].counters.failovers == 0, "nothing has failed");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "states") {
    prepareBehindTheRing();
    visitStates(2, 4);
    if (argc > 2 && std::string(argv[2]) == "3") {
      visitStates(3, 3);
    }
  } else if (what == "window") {
    keepWindow();
  } else if (what == "moments") {
    failAtMoments(static_cast<unsigned>(std::atoi(argv[2])));
  } else if (what == "returns") {
    attemptLater();
    copySlowly();
    closeInReturn();
    closeBeforeReturn();
    failBeforeOthersReturn();
    endOverRing(&Failover::close);
    endOverRing(&Failover::abort);
    returnRepeatedly(static_cast<unsigned>(std::atoi(argv[2])));
  } else if (what == "gone") {
    for (int size = 2; size <= 4; ++size) {
      for (int gone = 0; gone < size; ++gone) {
        loseRank(size, gone);
      }
    }
    std::vector<std::thread> cases;
    for (int size = 2; size <= 4; ++size) {
      cases.emplace_back(loseNetwork, size, false);
      cases.emplace_back(loseNetwork, size, true);
      cases.emplace_back(muteRank, size, size - 1, false);
      cases.emplace_back(muteRank, size, size - 1, true);
      for (const auto moment : {Moment::kStop, Moment::kRing, Moment::kSum, Moment::kStep,
                                Moment::kReturn, Moment::kHalf}) {
        cases.emplace_back(abortLater, size, size - 1, moment);
        cases.emplace_back(abortLater, size, 0, moment);
      }
    }
    for (auto& one : cases) {
      one.join();
    }
    endInMessage();
    loseInMessage();
    endAfterLastMessage();
    abortGroup();
    failToStop();
    hearNoise();
    timeOutSum();
    releaseInExchange();
    leaveInSuspend();
    endEarly();
  } else {
    check(false, "usage: failover states RANKS|window|moments SEEDS|returns SEEDS|gone");
  }
  std::puts("ok");
  return 0;
}
