// Failover with a library, and connections of the ranks, that are made up. `states`: each state of
// the ranks in which a failure can find them, as in tests/support/failover_model.py. `window`: jobs
// under way. `moments`: threads, and a library that dies at a random moment. `returns`: one that is
// started again, and dies again. `gone`: a rank ends with the library, or later.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
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

#include "recover/SwitchMLFailover.hpp"
#include "wires.hpp"

namespace {

using std::chrono::milliseconds;
using switchml_torch::Element;
using switchml_torch::Failover;
using switchml_torch::goneText;
using switchml_torch::Ring;
using switchml_torch::Transfer;
using wires::Wires;

constexpr milliseconds kLimit = std::chrono::seconds(60);

std::uint64_t numelOf(std::uint64_t job) { return job % 3 == 2 ? 1 : 5 + job; }
Element elementOf(std::uint64_t job) { return job % 2 == 0 ? Element::kFloat32 : Element::kInt32; }

/// Floats whose sum depends on the order in which they are added.
std::int32_t wordOf(int rank, std::uint64_t job, std::uint64_t i) {
  if (elementOf(job) == Element::kInt32) {
    return static_cast<std::int32_t>(1000 * job + 10 * i) * (rank + 1);
  }
  const float value = static_cast<float>(job + i + 1) * (rank % 2 == 0 ? 1e8F : 1.1F);
  std::int32_t word = 0;
  std::memcpy(&word, &value, sizeof word);
  return word;
}

std::int32_t added(Element element, std::int32_t one, std::int32_t other) {
  if (element == Element::kInt32) {
    return one + other;
  }
  float left = 0;
  float right = 0;
  std::memcpy(&left, &one, sizeof left);
  std::memcpy(&right, &other, sizeof right);
  left += right;
  std::memcpy(&one, &left, sizeof one);
  return one;
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
using StepsOf = std::function<std::vector<Failover::Step>(Rank&)>;

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
        Failover::Delegate{[this](const std::string& /*why*/) {
                             stopped = true;
                             onStop();
                           },
                           [this](void* to, const void* from, std::size_t bytes) {
                             onCopy(from);
                             std::memcpy(to, from, bytes);
                           },
                           [this](const std::string& line) { onSay(line); },
                           stepsOf ? stepsOf(*this) : never(), [this] { onResume(); },
                           /*firstTry=*/3},
        counters);
  }

  static std::vector<Failover::Step> never() {
    return {[](std::uint64_t /*seed*/) { return Failover::Obstacle{"never", true}; }};
  }

  bool submit(std::uint64_t job, bool begins = true) {
    held[job] = failover->admit(job, begins, rows[job].size() * sizeof(std::int32_t));
    memory[job] = reinterpret_cast<std::int32_t*>(held[job].get());
    return memory[job] != nullptr;
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
  Failover::Counters counters;
  std::unique_ptr<Failover> failover;
};

std::vector<std::unique_ptr<Rank>> makeRanks(Wires& wires, int size, std::uint64_t jobs,
                                             const StepsOf& stepsOf = {},
                                             milliseconds limit = kLimit) {
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<Rank>(wires, rank, size, jobs, stepsOf, limit));
  }
  return ranks;
}

/// All ranks have the same bits, and those of integers are right whatever the order.
void checkSums(const std::vector<std::unique_ptr<Rank>>& ranks, const std::string& where) {
  const auto size = static_cast<int>(ranks.size());
  for (std::uint64_t job = 0; job < ranks[0]->rows.size(); ++job) {
    const auto& first = ranks[0]->rows[job];
    for (const auto& rank : ranks) {
      check(rank->rows[job] == first, where + ": ranks have other sums of a job");
    }
    const auto sum = sumOf(size, job);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      if (elementOf(job) == Element::kInt32) {
        check(first[i] == sum[i], where + ": a wrong sum");
      } else {
        float one = 0;
        float other = 0;
        std::memcpy(&one, &first[i], sizeof one);
        std::memcpy(&other, &sum[i], sizeof other);
        check(std::abs(one - other) <= 1e-6F * std::abs(other), where + ": a wrong sum of floats");
      }
    }
  }
}

/// What a call throws; empty where it does not.
template <typename Call>
std::string raised(const Call& call) {
  try {
    call();
  } catch (const std::runtime_error& thrown) {
    return thrown.what();
  }
  return "";
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

void replay(std::vector<std::unique_ptr<Rank>>& ranks, const Event& event) {
  auto& rank = *ranks[event.rank];
  const auto sum = sumOf(static_cast<int>(ranks.size()), event.job);
  if (event.kind == Kind::kSubmit) {
    check(rank.submit(event.job), "a job is admitted before the failure");
  } else if (event.kind == Kind::kTouch) {
    rank.memory[event.job][0] = sum[0];
  } else {
    std::copy(sum.begin(), sum.end(), rank.memory[event.job]);
    check(rank.failover->take(event.job, rank.rows[event.job].data()), "a sum is taken");
    check(rank.rows[event.job] == sum, "the caller has the sum");
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
  Wires wires(static_cast<int>(size));
  auto ranks = makeRanks(wires, static_cast<int>(size), jobs);
  for (const auto& event : events) {
    replay(ranks, event);
  }
  ranks[number % size]->failover->suspend("the library died");
  if (number % 3 == 0) {
    ranks[(number + 1) % size]->failover->suspend("here as well");
  }
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      auto& rank = *ranks[r];
      while (!rank.stopped) {
        std::this_thread::yield();
      }
      writeLate(rank, state[r]);
      check(!(state[r].finished < state[r].submitted &&
              rank.failover->take(state[r].finished, rank.rows[state[r].finished].data())),
            "no sum is taken after the failure");
      for (auto job = state[r].finished; job < jobs; ++job) {
        check(job < state[r].submitted || !rank.submit(job), "nothing is admitted any more");
        rank.redo(job);
      }
      check(rank.counters.failovers == 1 && rank.counters.seconds() >= 0 &&
                rank.counters.redone == state[r].submitted - state[r].finished,
            "the counters");
      for (const auto& memory : rank.held) {
        check(state[r].finished == jobs || memory == nullptr ||
                  memory.use_count() == std::count(rank.held.begin(), rank.held.end(), memory),
              "no memory is kept for sums of the library");
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  checkSums(ranks, "state " + std::to_string(number));
}

/// One rank gives up: all others throw. Nobody waits for a sum that it would have to give.
void giveUpFrom(const State& state, const std::vector<Event>& events, std::uint64_t jobs,
                std::size_t number) {
  const auto size = state.size();
  const auto gone = number % size;
  Wires wires(static_cast<int>(size));
  auto ranks = makeRanks(wires, static_cast<int>(size), jobs);
  for (const auto& event : events) {
    replay(ranks, event);
  }
  ranks[gone]->failover->giveUp("a sum was dropped");
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      auto& rank = *ranks[r];
      while (r != gone && !rank.stopped) {
        std::this_thread::yield();
      }
      const auto error = raised([&] { rank.redo(jobs - 1); });
      const auto expected = r == gone ? "a sum was dropped" : goneText(gone);
      check(error.find(expected) != std::string::npos, error);
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
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
    giveUpFrom(state, events, jobs, number);
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

/// Library that sums what all ranks have submitted, job by job, until it dies.
class Library {
 public:
  Library(std::size_t ranks, std::uint64_t jobs, std::uint64_t dies, unsigned seed)
      : pending_(jobs), finished_(ranks, 0), dies_(dies), random_(seed) {}

  void submit(std::uint64_t job, Rank& rank) {
    std::lock_guard<std::mutex> lock(mutex_);
    pending_[job].push_back(&rank);
    changed_.notify_all();
  }

  /// False when it has died.
  bool wait(std::uint64_t job, const Rank& rank) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto& finished = finished_[static_cast<std::size_t>(rank.number)];
    changed_.wait(lock, [&] { return finished > job || dead_; });
    return finished > job;
  }

  /// Each event is a sum for one rank; the last of them before it dies is that of `dies`.
  void run() {
    std::uint64_t events = 0;
    for (std::uint64_t job = 0; job < pending_.size(); ++job) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return pending_[job].size() == finished_.size() || dead_; });
      if (dead_) {
        return;
      }
      const auto sum = sumOf(static_cast<int>(finished_.size()), job);
      std::shuffle(pending_[job].begin(), pending_[job].end(), random_);
      for (auto* const rank : pending_[job]) {
        if (++events > dies_) {
          rank->memory[job][0] = sum[0];
          dead_ = true;
          changed_.notify_all();
          return;
        }
        std::copy(sum.begin(), sum.end(), rank->memory[job]);
        finished_[static_cast<std::size_t>(rank->number)] = job + 1;
        changed_.notify_all();
        if (random_() % 4 == 0) {
          lock.unlock();
          std::this_thread::sleep_for(std::chrono::microseconds(random_() % 100));
          lock.lock();
        }
      }
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<Rank*>> pending_;
  std::vector<std::uint64_t> finished_;
  const std::uint64_t dies_;
  bool dead_ = false;
  std::mt19937 random_;
};

/// Library that dies, and is started again. A session sums what all ranks have submitted to it.
class Sessions {
 public:
  Sessions(std::size_t ranks, unsigned seed) : ranks_(ranks), random_(seed) { begin(0); }

  /// Steps of a rank, which may fail. The ranks take them together.
  std::vector<Failover::Step> stepsOf(Rank& rank) {
    rank.onStop = [this] {
      std::lock_guard<std::mutex> lock(mutex_);
      changed_.notify_all();
    };
    return {[this, &rank](std::uint64_t /*seed*/) {
              std::lock_guard<std::mutex> lock(mutex_);
              check(rank.stopped, "a context that is tried again has been stopped");
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
              begin(++own.session);
              auto obstacle = chance("does not start");
              rank.stopped = !obstacle.why.empty();
              return obstacle;
            },
            [this, &rank](std::uint64_t seed) {
              std::lock_guard<std::mutex> lock(mutex_);
              check(of(rank).seed == seed, "one seed in a try");
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

  /// False when it has died, and when the rank has stopped it.
  bool wait(std::uint64_t job, Rank& rank) {
    std::unique_lock<std::mutex> lock(mutex_);
    auto& session = sessions_[of(rank).places.at(job)];
    const auto& rows = session.rows[job];
    changed_.wait(lock,
                  [&] { return rank.stopped || (rows.size() == ranks_ && session.left > 0); });
    if (rank.stopped || rows.size() < ranks_) {
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
      return false;
    }
    std::copy(sum.begin(), sum.end(), rank.memory[job]);
    of(rank).underWay.erase(job);
    return true;
  }

 private:
  struct Session {
    std::uint64_t left = 0;  // sums for a rank until it dies
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

  void begin(std::uint64_t session) {
    if (sessions_.count(session) == 0) {
      sessions_[session].left = 1 + random_() % (ranks_ * 20);
    }
  }

  Failover::Obstacle chance(const char* why) { return {random_() % (6 * ranks_) == 0 ? why : ""}; }

  const std::size_t ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Session> sessions_;
  std::map<int, Context> contexts_;
  std::mt19937 random_;
};

/// Calls of one to four jobs, which two threads of a rank take in their order: each has two jobs
/// under way, as those of the delegate.
template <typename Library>
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
        if (rank_.failover->take(job, rank_.rows[job].data())) {
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
template <typename Source>
void callAll(const std::vector<std::unique_ptr<Rank>>& ranks, Source& library,
             std::mt19937& random) {
  std::vector<std::unique_ptr<Callers<Source>>> callers;
  std::vector<std::thread> threads;
  const auto calls = static_cast<unsigned>(random());
  for (const auto& rank : ranks) {
    callers.push_back(std::make_unique<Callers<Source>>(*rank, library, calls));
    for (int thread = 0; thread < 2; ++thread) {
      threads.emplace_back([&own = *callers.back(), started = random()] {
        own.run(static_cast<unsigned>(started));
      });
    }
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

void tryMoments(unsigned seeds) {
  constexpr std::uint64_t kJobs = 12;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    std::mt19937 random(seed);
    const auto size = 2 + random() % 4;
    const auto dies = random() % (size * kJobs + 1);
    Wires wires(static_cast<int>(size));
    auto ranks = makeRanks(wires, static_cast<int>(size), kJobs);
    Library library(size, kJobs, dies, random());
    std::thread running([&library] { library.run(); });
    callAll(ranks, library, random);
    running.join();
    checkSums(ranks, "seed " + std::to_string(seed));
    for (const auto& rank : ranks) {
      check(rank->counters.failovers == (dies < size * kJobs ? 1 : 0), "failovers");
    }
  }
}

/// The ranks return again and again, and none of them alone.
void tryReturns(unsigned seeds) {
  constexpr std::uint64_t kJobs = 120;
  std::uint64_t returns = 0;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    std::mt19937 random(seed);
    const auto size = 2 + random() % 3;
    Wires wires(static_cast<int>(size));
    Sessions sessions(size, static_cast<unsigned>(random()));
    auto ranks = makeRanks(wires, static_cast<int>(size), kJobs,
                           [&sessions](Rank& rank) { return sessions.stepsOf(rank); });
    callAll(ranks, sessions, random);
    checkSums(ranks, "seed " + std::to_string(seed));
    const auto& first = ranks[0]->counters;
    for (const auto& rank : ranks) {
      check(rank->counters.returns == first.returns, "all return, or none");
    }
    check(first.failovers == first.returns || first.failovers == first.returns + 1, "failovers");
    returns += first.returns;
  }
  check(returns > seeds, "there are so many returns");
}

/// A caller that still copies its sum has the right one, also where the others have returned since.
void copySlowly() {
  constexpr std::uint64_t kJobs = 5;  // the last has the slot of the first
  Wires wires(2);
  auto ranks = makeRanks(wires, 2, kJobs, [](Rank& /*rank*/) {
    return std::vector<Failover::Step>{[](std::uint64_t /*seed*/) { return Failover::Obstacle{}; }};
  });
  const auto finish = [](Rank& rank, std::uint64_t job) {
    const auto sum = sumOf(2, job);
    std::copy(sum.begin(), sum.end(), rank.memory[job]);
    check(rank.failover->take(job, rank.rows[job].data()), "a sum is taken");
  };
  for (const auto& rank : ranks) {
    check(rank->submit(0) && rank->submit(1), "jobs are admitted before the failure");
  }
  auto& slow = *ranks[0];
  std::atomic<bool> copies{false};
  std::atomic<bool> released{false};
  slow.onCopy = [&, memory = slow.memory[0]](const void* from) {
    copies = copies || from == memory;
    while (from == memory && !released) {
      std::this_thread::yield();
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back([&] { finish(slow, 0); });
  while (!copies) {
    std::this_thread::yield();
  }
  finish(*ranks[1], 0);
  slow.failover->suspend("the library died");
  std::atomic<int> left{2};
  for (const auto& rank : ranks) {
    threads.emplace_back([&, &rank = *rank] {
      rank.redo(1);
      check(!rank.submit(2), "a job goes over the ring");
      rank.redo(2);
      check(rank.submit(3) && rank.submit(4), "jobs are admitted after the return");
      --left;
      finish(rank, 3);
      finish(rank, 4);
    });
  }
  for (int i = 0; i < 100 && left > 0; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  released = true;
  for (auto& thread : threads) {
    thread.join();
  }
  checkSums(ranks, "a slow copy");
}

/// Nothing is done to an input while another rank may take a sum of it from its library.
void prepareBehindTheRing() {
  Wires wires(2);
  auto ranks = makeRanks(wires, 2, 1);
  std::atomic<bool> released{false};
  std::atomic<bool> prepared{false};
  ranks[1]->onStop = [&released] {
    while (!released) {
      std::this_thread::yield();
    }
  };
  ranks[0]->failover->suspend("the library died");
  std::vector<std::thread> threads;
  threads.emplace_back([&] { ranks[0]->redo(0, kLimit, [&prepared] { prepared = true; }); });
  std::this_thread::sleep_for(milliseconds(20));
  check(!prepared, "the other rank has not stopped");
  released = true;
  threads.emplace_back([&] { ranks[1]->redo(0); });
  for (auto& thread : threads) {
    thread.join();
  }
  check(prepared, "an input before it is summed");
  checkSums(ranks, "a prepared input");
}

/// A rank has returned, and failed again, before the others have.
void failBeforeOthersReturn() {
  Wires wires(2);
  auto ranks = makeRanks(wires, 2, 4, [](Rank& rank) {
    return std::vector<Failover::Step>{[&rank](std::uint64_t /*seed*/) {
      rank.stopped = false;
      return Failover::Obstacle{};
    }};
  });
  ranks[1]->onResume = [&first = *ranks[0]] {
    while (first.counters.failovers < 2) {
      std::this_thread::yield();
    }
    std::this_thread::sleep_for(milliseconds(50));  // until its warning is here
  };
  ranks[0]->failover->suspend("the library died");
  std::vector<std::thread> threads;
  for (const auto& rank : ranks) {
    threads.emplace_back([&own = *rank] {
      while (!own.stopped) {
        std::this_thread::yield();
      }
      for (const std::uint64_t job : {0, 1}) {
        check(!own.submit(job), "a job goes over the ring");
        own.redo(job);
      }
      own.submit(2);
      if (own.number == 0) {
        own.failover->suspend("again");
      }
      own.redo(2);
      own.redo(3);
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  checkSums(ranks, "a second failure in a return");
}

/// A group that is closed when its ranks have just agreed to return does not say that it has.
void closeInReturn() {
  Wires wires(2);
  auto ranks = makeRanks(wires, 2, 3, [](Rank& /*rank*/) {
    return std::vector<Failover::Step>{[](std::uint64_t /*seed*/) { return Failover::Obstacle{}; }};
  });
  auto& closed = *ranks[0];
  std::string said;
  closed.onSay = [&said](const std::string& line) { said += line; };
  closed.onResume = [&closed] { closed.failover->close("aborted"); };
  closed.failover->suspend("the library died");
  std::vector<std::thread> threads;
  for (const auto& rank : ranks) {
    threads.emplace_back([&rank = *rank] {
      while (!rank.stopped) {
        std::this_thread::yield();
      }
      for (const std::uint64_t job : {0, 1}) {
        check(!rank.submit(job), "a job goes over the ring");
        rank.redo(job);
      }
      check(rank.submit(2) == (rank.number != 0), "all ranks return but the closed one");
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  check(said.find("goes over Gloo") != std::string::npos, "it says that it has failed");
  check(said.find("returns") == std::string::npos, "it does not return: " + said);
}

/// A group that ends while its ranks go over the ring says so once, also at the end of a process.
void endOverRing(void (Failover::*end)(const std::string&)) {
  Wires wires(2);
  auto ranks = makeRanks(wires, 2, 1);
  auto& first = *ranks[0];
  std::mutex mutex;  // the warning may still be said
  std::string said;
  first.onSay = [&](const std::string& line) {
    const std::lock_guard<std::mutex> lock(mutex);
    said += line + "\n";
  };
  first.failover->suspend("the library died");
  std::vector<std::thread> threads;
  for (const auto& rank : ranks) {
    threads.emplace_back([&rank = *rank] { rank.redo(0); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  first.counters.calls += 3;
  ((*first.failover).*end)("the process is exiting");
  check(first.counters.since == 0, "no time is counted any more");
  first.failover->leave();
  const std::string line = "the process is exiting; 3 allreduces went over Gloo, in ";
  const std::string any = "went over Gloo, in ";
  check(said.find(line) != std::string::npos && said.find(any) == said.rfind(any), said);
}

// ---- ranks that are gone ------------------------------------------------------------------------

/// All of the others say which one, whichever fails first.
void loseRank(int size, int gone) {
  Wires wires(size);
  auto ranks = makeRanks(wires, size, 2);
  wires.cut(gone);
  ranks[static_cast<std::size_t>(gone)]->failover->close("dead");
  std::vector<std::thread> threads;
  for (const auto& rank : ranks) {
    check(rank->number == gone || rank->submit(0), "a job is admitted");
  }
  for (const auto& rank : ranks) {
    if (rank->number != gone) {
      threads.emplace_back([&rank = *rank, gone] {
        rank.failover->suspend("the library died");
        const auto error = raised([&] { rank.redo(0); });
        check(error.find(goneText(gone)) != std::string::npos, error);
      });
    }
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

/// Runs a function for each rank at the same time; fails if that takes about as long as any limit.
template <typename Function>
void forEach(const std::vector<std::unique_ptr<Rank>>& ranks, const Function& function,
             milliseconds limit = kLimit / 3) {
  const auto begun = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (const auto& rank : ranks) {
    threads.emplace_back([&function, &own = *rank] { function(own); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  check(std::chrono::steady_clock::now() - begun < limit, "nobody waits for long");
}

/// The network of the messages is lost, with the switch or later, and no connection closes.
void loseNetwork(int size, bool later) {
  constexpr auto kShort = milliseconds(3000);
  Wires wires(size);
  const auto ranks = makeRanks(wires, size, 2, {}, kShort);
  ranks[0]->failover->suspend("the library died");
  if (later) {
    forEach(ranks, [](Rank& rank) {
      while (!rank.stopped) {
        std::this_thread::yield();
      }
      rank.redo(0);
    });
  }
  wires.silence();
  forEach(
      ranks,
      [&](Rank& rank) {
        rank.failover->suspend("here as well");
        const auto error = raised([&] { rank.redo(later ? 1 : 0, kShort); });
        check(error.find("the ranks cannot go on over Gloo: rank ") != std::string::npos, error);
        const auto gone = goneText((rank.number + size - 1) % size, "no answer came");
        check(!later || error.find(gone) != std::string::npos, error);
      },
      5 * kShort);
}

/// Nothing is heard of one rank, and no connection closes: all others say which one.
void muteRank(int size, int mute, bool later) {
  constexpr auto kShort = milliseconds(3000);
  Wires wires(size);
  const auto ranks = makeRanks(wires, size, 2, {}, kShort);
  if (later) {
    ranks[0]->failover->suspend("the library died");
    forEach(ranks, [](Rank& rank) { rank.redo(0); });
  }
  wires.mute(mute);
  forEach(ranks, [&](Rank& rank) {
    rank.failover->suspend("the library died");
    if (rank.number == (mute + 1) % size) {
      std::this_thread::sleep_for(kShort / 5);  // the others wait for this one already
    }
    const auto error = raised([&] { rank.redo(later ? 1 : 0, kShort); });
    check(rank.number == mute || error.find(goneText(mute)) != std::string::npos, error);
  });
}

/// Moments at which a rank gives up, or ends.
enum class Moment { kStop, kRing, kSum, kStep, kReturn, kHalf };

/// A rank gives up while the others recover, go over the ring, or return; or its process ends with
/// messages that are half done. All others say which one, and at once.
void giveUpLater(int size, int gone, Moment moment) {
  Wires wires(size);
  std::atomic<int> summed{0};
  const auto awaitSums = [&](int count) {
    while (summed < count) {
      std::this_thread::yield();
    }
  };
  auto ranks = makeRanks(wires, size, 3, [&](Rank& rank) {
    return std::vector<Failover::Step>{[&](std::uint64_t /*seed*/) {
      if (rank.number == gone && moment == Moment::kStep) {
        awaitSums(2 * size);
        rank.failover->giveUp("it was dropped");
      }
      rank.stopped = false;
      return Failover::Obstacle{};
    }};
  });
  auto& first = *ranks[static_cast<std::size_t>(gone)];
  const auto giveUp = [&first] { first.failover->giveUp("it was dropped"); };
  (moment == Moment::kStop ? first.onStop : first.onResume) =
      moment == Moment::kStop || moment == Moment::kReturn ? std::function<void()>(giveUp) : [] {};
  std::atomic<int> waiting{0};
  const auto isGone = [&](Rank& rank, std::uint64_t job) {
    ++waiting;
    const auto error = raised([&] { rank.redo(job); });
    const auto name = goneText(gone);
    check(error.find(rank.number == gone ? "it was dropped" : name) != std::string::npos, error);
  };
  ranks[static_cast<std::size_t>((gone + 1) % size)]->failover->suspend("the library died");
  forEach(ranks, [&](Rank& rank) {
    while (!rank.stopped) {
      std::this_thread::yield();
    }
    if (moment == Moment::kStop) {
      isGone(rank, 0);
      return;
    }
    check(!rank.submit(0), "a job goes over the ring");
    rank.redo(0);
    ++summed;
    if (moment == Moment::kRing || moment == Moment::kSum || moment == Moment::kHalf) {
      if (rank.number == gone) {
        awaitSums(size);
        while (moment != Moment::kRing && waiting + 1 < size) {
          std::this_thread::yield();
        }
        std::this_thread::sleep_for(milliseconds(20));
        if (moment == Moment::kHalf) {
          wires.cut(gone, switchml_torch::kRecoveries);
          return;
        }
        giveUp();
      }
      isGone(rank, 1);
      return;
    }
    check(!rank.submit(1), "a job goes over the ring");
    rank.redo(1);
    ++summed;
    if (rank.submit(2)) {
      check(moment == Moment::kReturn, "nobody returns alone");
      while (!rank.stopped) {
        std::this_thread::yield();
      }
      check(!rank.failover->take(2, rank.rows[2].data()), "no sum is taken");
    }
    isGone(rank, 2);
  });
}

/// The connection to the next rank closes when half of a message is sent.
void endInMessage() {
  Wires wires(3);
  switchml_torch::RingCollectives ring(wires.of(0), switchml_torch::kRecoveries, 0, 3);
  int value = 7;
  std::thread closing([&wires] {
    std::this_thread::sleep_for(milliseconds(20));
    wires.cut(1, switchml_torch::kRecoveries);
  });
  const auto error = raised([&] { ring.broadcast(0, &value, sizeof value, kLimit); });
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
  switchml_torch::RingCollectives ring(wires, switchml_torch::kRecoveries, 0, 3);
  const auto error = raised([&] { ring.gather(7, kLimit); });
  check(error == "rank 2 is gone (closed)", error);
  check(sent, "the message to the next rank is sent");
}

/// A rank that ends with its last message spoils no message of the others: neither that message,
/// which is looked at late, nor the one that passes it on.
void endAfterLastMessage() {
  constexpr auto kLate = milliseconds(400);
  Wires wires(3);
  std::vector<std::unique_ptr<switchml_torch::RingCollectives>> rings;
  for (int rank = 0; rank < 3; ++rank) {
    rings.push_back(std::make_unique<switchml_torch::RingCollectives>(
        wires.of(rank), switchml_torch::kRecoveries, rank, 3));
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
    rings[1]->lose();
    std::this_thread::sleep_for(6 * kLate);
  }
  broadcast(2);
  first.join();
  second.join();
  check(values[1] == 7 && values[2] == 7, "all have the message");
}

/// Whoever waits for the others, or for a place in the window, hears that the group was aborted.
void abortGroup() {
  Wires wires(2);
  auto ranks = makeRanks(wires, 2, 3);
  auto& rank = *ranks[0];
  check(rank.submit(0) && rank.submit(1), "jobs are admitted");
  std::thread waiting([&rank] { check(!rank.submit(2), "no third job"); });
  std::thread redoing([&rank] {
    const auto error = raised([&] { rank.redo(0); });
    check(error == "aborted", "a sum without the other rank: " + error);
  });
  std::this_thread::sleep_for(milliseconds(20));
  rank.failover->close("aborted");
  waiting.join();
  redoing.join();
}

/// A rank whose context cannot be stopped leaves nobody waiting.
void failToStop() {
  Wires wires(2);
  const auto ranks = makeRanks(wires, 2, 1);
  ranks[0]->onStop = [] { throw std::bad_alloc(); };
  ranks[0]->failover->suspend("the library died");
  for (const auto& rank : ranks) {
    const auto error = raised([&] { rank->redo(0); });
    check(error.find("bad_alloc") != std::string::npos, "a sum without that rank: " + error);
  }
}

/// The last words of a rank are a line, whatever it sends.
void hearNoise() {
  Wires wires(2);
  const auto ranks = makeRanks(wires, 2, 1);
  std::array<char, 256> noise{};
  std::fill(noise.begin() + sizeof(std::int32_t), noise.end(), '\x1b');
  check(wires.of(0).send(switchml_torch::kWarnings, noise.data(), noise.size()).wait(kLimit), "");
  for (const auto& rank : ranks) {
    const auto error = raised([&] { rank->redo(0); });
    check(error == "the ranks cannot go on over Gloo: " +
                       std::string(rank->number == 0 ? 250 : 251, '?'),
          error);
  }
}

/// A message for a sum that a rank has given up finds none of its memory: a sanitizer would tell.
void giveUpSum() {
  Wires wires(2);
  const auto ranks = makeRanks(wires, 2, 1);
  ranks[0]->failover->suspend("the library died");
  for (const auto& rank : ranks) {
    std::thread([&rank] {
      const auto error = raised([&] { rank->redo(0, milliseconds(20)); });
      check(error.find("rank 1 is gone (no answer came)") != std::string::npos,
            "a sum without the other rank: " + error);
    }).join();
  }
}

/// A rank has two jobs under way at most, and gives the sums to their callers in order.
void keepWindow() {
  Wires wires(2);
  auto ranks = makeRanks(wires, 2, 4);
  auto& rank = *ranks[0];
  std::atomic<int> admitted{0};
  std::thread submitting([&] {
    for (std::uint64_t job = 0; job < 4; ++job) {
      check(rank.submit(job), "a job is admitted");
      ++admitted;
    }
  });
  std::vector<std::thread> taking;
  std::atomic<int> taken{0};
  while (admitted < 2) {
    std::this_thread::yield();
  }
  std::this_thread::sleep_for(milliseconds(50));
  check(admitted == 2, "two jobs are under way");
  taking.emplace_back([&] {
    check(rank.failover->take(1, rank.rows[1].data()), "the second sum is taken");
    ++taken;
  });
  std::this_thread::sleep_for(milliseconds(50));
  check(taken == 0 && admitted == 2, "the first sum comes first");
  taking.emplace_back([&] {
    check(rank.failover->take(0, rank.rows[0].data()), "the first sum is taken");
    ++taken;
  });
  for (auto& thread : taking) {
    thread.join();
  }
  submitting.join();
}

/// A rank that ends before the others is no failure of theirs.
void endEarly() {
  Wires wires(2);
  auto ranks = makeRanks(wires, 2, 1);
  check(ranks[0]->submit(0), "a job is admitted");
  ranks[1]->failover->leave();
  wires.cut(1);
  std::this_thread::sleep_for(milliseconds(20));
  const auto sum = sumOf(2, 0);
  std::copy(sum.begin(), sum.end(), ranks[0]->memory[0]);
  check(ranks[0]->failover->take(0, ranks[0]->rows[0].data()), "the last sum is taken");
  check(ranks[0]->counters.failovers == 0, "nothing has failed");
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
    tryMoments(static_cast<unsigned>(std::atoi(argv[2])));
  } else if (what == "returns") {
    copySlowly();
    closeInReturn();
    failBeforeOthersReturn();
    endOverRing(&Failover::close);
    endOverRing(&Failover::giveUp);
    tryReturns(static_cast<unsigned>(std::atoi(argv[2])));
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
        cases.emplace_back(giveUpLater, size, size - 1, moment);
        cases.emplace_back(giveUpLater, size, 0, moment);
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
    giveUpSum();
    endEarly();
  } else {
    check(false, "usage: failover states RANKS|window|moments SEEDS|returns SEEDS|gone");
  }
  std::puts("ok");
  return 0;
}
