// The delegate without torch: a process group of the same shape (a queue, worker threads, works
// that hold an allreduce) and a Store in a directory, so that every line of it can run under the
// sanitizers. With OTHER_ABI this file has the old ABI of the C++ library, as many a torch; the
// delegate has that of the client library.
#ifdef OTHER_ABI
#define _GLIBCXX_USE_CXX11_ABI 0
#endif
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "SwitchMLAllreduce.hpp"
#include "check.hpp"
#include "forked.hpp"
#include "tensor.hpp"
#include "threads.hpp"

extern "C" std::size_t switchml_delegate_report(char* buffer, std::size_t capacity);

namespace {

using std::chrono::milliseconds;

enum class ScalarType { Float, Int, Double, BFloat16, Half };
enum class ReduceOp { SUM, MAX };
struct Context {};

using Tensor = MadeUpTensor<ScalarType, std::int32_t>;

class DirectoryStore {
 public:
  DirectoryStore(std::filesystem::path root, const std::string& prefix) : root_(std::move(root)) {
    root_ /= prefix;
    std::filesystem::create_directories(root_);
  }
  void set(const std::string& key, const std::vector<std::uint8_t>& value) {
    visit(key);
    const auto target = file(key);
    const auto staged = target.string() + ".new";
    {
      std::ofstream out(staged, std::ios::binary);
      out.write(reinterpret_cast<const char*>(value.data()),
                static_cast<std::streamsize>(value.size()));
    }
    std::filesystem::rename(staged, target);
  }
  void wait(const std::vector<std::string>& keys, milliseconds timeout) const {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    for (const auto& key : keys) {
      while (!std::filesystem::exists(file(key))) {
        if (std::chrono::steady_clock::now() > deadline) {
          throw std::runtime_error("no key " + key);
        }
        std::this_thread::sleep_for(milliseconds(1));
      }
    }
  }
  bool check(const std::vector<std::string>& keys) const {
    visit(keys[0]);
    return std::all_of(keys.begin(), keys.end(),
                       [&](const auto& key) { return std::filesystem::exists(file(key)); });
  }
  void deleteKey(const std::string& key) const { std::filesystem::remove(file(key)); }
  /// Takes as long as the environment says: a rank may be later than the others.
  std::vector<std::uint8_t> get(const std::string& key) const {
    const char* const lag = std::getenv("STORE_LAG_MS");
    std::this_thread::sleep_for(milliseconds(lag == nullptr ? 0 : std::atoi(lag)));
    visit(key);
    std::ifstream in(file(key), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  /// Calls a function when this thread accesses a key that has these words, once.
  static void onAccess(const std::string& words, std::function<void()> call) {
    awaited_ = {words, std::move(call)};
  }

 private:
  static void visit(const std::string& key) {
    if (awaited_.second && key.find(awaited_.first) != std::string::npos) {
      std::exchange(awaited_.second, nullptr)();
    }
  }
  std::filesystem::path file(std::string key) const {
    std::replace(key.begin(), key.end(), '/', '-');
    return root_ / key;
  }
  std::filesystem::path root_;
  static inline thread_local std::pair<std::string, std::function<void()>> awaited_;
};

/// Messages between ranks as files, which are there when they are whole.
class DirectoryRing {
 public:
  DirectoryRing(const DirectoryStore& store, int rank, int size)
      : store_(store), rank_(rank), before_((rank + size - 1) % size) {}

  switchml_delegate::Ring make() const {
    return {
        [store = store_, rank = rank_, sent = std::make_shared<Counts>()](
            unsigned channel, const void* data, std::size_t bytes) mutable {
          const auto* const begin = static_cast<const std::uint8_t*>(data);
          if (std::getenv("UNCONNECTED") == nullptr) {
            store.set(key(rank, channel, (*sent)[channel]++), {begin, begin + bytes});
          }
          return switchml_delegate::Transfer{[](milliseconds /*limit*/) { return true; }, [] {}};
        },
        [store = store_, from = before_, received = std::make_shared<Counts>()](
            unsigned channel, void* data, std::size_t bytes) {
          const auto name = key(from, channel, (*received)[channel]++);
          const auto aborted = std::make_shared<std::atomic<bool>>(false);
          return switchml_delegate::Transfer{
              [=](milliseconds limit) {
                const auto end = std::chrono::steady_clock::now() + limit;
                while (!store.check({name})) {
                  if (*aborted) {
                    return false;
                  }
                  if (std::chrono::steady_clock::now() > end) {
                    throw std::runtime_error("no message");
                  }
                  std::this_thread::sleep_for(milliseconds(1));
                }
                const auto value = store.get(name);
                if (value.size() != bytes) {
                  throw std::runtime_error("a message of another size");
                }
                std::copy(value.begin(), value.end(), static_cast<std::uint8_t*>(data));
                return true;
              },
              [aborted] {
                *aborted = true;
                if (const auto call = std::exchange(onAbort, nullptr)) {
                  call();
                }
              }};
        }};
  }

  static inline thread_local std::function<void()> onAbort;  // once, of this thread

 private:
  using Counts = std::array<std::atomic<int>, 8>;

  static std::string key(int from, unsigned channel, int number) {
    return "ring/" + std::to_string(from) + "/" + std::to_string(channel) + "/" +
           std::to_string(number);
  }

  const DirectoryStore store_;
  const int rank_;
  const int before_;
};

/// An error travels as text: the reference count of an exception_ptr lives in the C++ runtime,
/// which ThreadSanitizer does not see.
struct Outcome {
  bool delegated;
  std::string error;
};

struct Work {
  Work(const Context* context, std::vector<Tensor> tensors, ReduceOp op)
      : inputs(std::move(tensors)), call(context, inputs, op) {}
  std::vector<Tensor> inputs;
  switchml_delegate::Allreduce call;
  std::promise<Outcome> outcome;
};

class Group {
 public:
  Group(DirectoryStore store, int rank, int size, milliseconds timeout) {
    contexts_.push_back(std::make_shared<Context>());
    switchml_delegate::join(store, contexts_, rank, size, timeout,
                            [&] { return DirectoryRing(store, rank, size).make(); });
    for (int i = 0; i < 2; ++i) {
      threads_.emplace_back([this] { loop(); });
    }
  }
  ~Group() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (auto& thread : threads_) {
      thread.join();
    }
    leave();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  std::future<Outcome> allreduce(Tensor tensor, ReduceOp op = ReduceOp::SUM) {
    return submit(make(std::move(tensor), op));
  }

  /// The tensors are one row, or are summed with each other as well.
  std::future<Outcome> allreduce(std::vector<Tensor> tensors, bool coalesced) {
    auto work = std::make_shared<Work>(contexts_[0].get(), std::move(tensors), ReduceOp::SUM);
    check(coalesced == (coalesced && work->call.coalesce()), "one row is delegated");
    return submit(std::move(work));
  }

  const std::vector<std::shared_ptr<Context>>& contexts() const { return contexts_; }
  void abort() { switchml_delegate::delegate()->abort(contexts_[0].get()); }
  void leave() const { switchml_delegate::leave(contexts_); }

  std::shared_ptr<Work> make(Tensor tensor, ReduceOp op = ReduceOp::SUM) {
    return std::make_shared<Work>(contexts_[0].get(), std::vector<Tensor>{std::move(tensor)}, op);
  }

 private:
  std::future<Outcome> submit(std::shared_ptr<Work> work) {
    auto result = work->outcome.get_future();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      queue_.push_back(std::move(work));
    }
    changed_.notify_one();
    return result;
  }

  void loop() {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) {
        return;
      }
      const auto work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      try {
        work->outcome.set_value({work->call.allreduce(work->inputs), ""});
      } catch (const std::runtime_error& error) {
        work->outcome.set_value({false, std::string(error.what())});
      }
    }
  }

  std::vector<std::shared_ptr<Context>> contexts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<std::shared_ptr<Work>> queue_;  // another one in each ABI
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

Tensor ints(std::size_t numel, int rank, int salt) {
  std::vector<std::int32_t> words(numel);
  for (std::size_t i = 0; i < numel; ++i) {
    words[i] = static_cast<std::int32_t>(i) * (rank + 1) + salt;
  }
  return {ScalarType::Int, std::move(words)};
}

struct Rank {
  std::filesystem::path root;
  int rank;
  int size;
  milliseconds timeout;  // of the group
  milliseconds limit;    // of a job

  Group group(const std::string& name) const {
    return Group(DirectoryStore(root, name), rank, size, timeout);
  }

  /// Waits until all ranks are here.
  void meet(const std::string& place) const {
    DirectoryStore others(root, place);
    others.set(std::to_string(rank), {});
    for (int other = 0; other < size; ++other) {
      others.wait({std::to_string(other)}, timeout);
    }
  }

  void checkSum(const Tensor& tensor, const std::string& error, int salt = 0) const {
    check(error.empty(), error);
    const auto words = tensor.values();
    for (std::size_t i = 0; i < words.size(); ++i) {
      check(words[i] == static_cast<int>(i) * size * (size + 1) / 2 + salt * size, "the sum");
    }
  }

  void sum(Group& group, int rounds, bool expectDelegated) const {
    std::vector<Tensor> tensors;
    std::vector<std::future<Outcome>> futures;
    for (int i = 0; i < rounds; ++i) {
      tensors.push_back(ints(static_cast<std::size_t>(1 + 37 * i), rank, i));
      futures.push_back(group.allreduce(tensors.back()));
    }
    for (int i = 0; i < rounds; ++i) {
      const auto outcome = futures[i].get();
      check(outcome.error.empty(), outcome.error);
      check(outcome.delegated == expectDelegated, "delegated or not, as agreed");
      if (expectDelegated) {
        checkSum(tensors[i], "", i);
      }
    }
  }
};

std::string report() {
  std::vector<char> buffer(4096);
  switchml_delegate_report(buffer.data(), buffer.size());
  return buffer.data();
}

void delegated(const Rank& me) {
  auto group = me.group("delegated");
  me.sum(group, 3, true);
}

/// A scenario of a group that delegates.
template <void (*scenario)(const Rank&, Group&)>
void delegating(const Rank& me) {
  auto group = me.group("delegating");
  me.sum(group, 3, true);
  scenario(me, group);
}

void concurrent(const Rank& me) {
  auto first = me.group("first");
  std::atomic<bool> done{false};
  std::thread reading([&done] {
    while (!done) {
      report();
    }
  });
  std::thread making([&me] {
    inThreads(3, [&me](std::size_t t) {
      for (int round = 0; round < 5; ++round) {
        auto group = me.group("thread" + std::to_string(t) + "-" + std::to_string(round));
        me.sum(group, 10, false);
      }
    });
  });
  me.sum(first, 100, true);
  check(!first.allreduce(ints(5, me.rank, 0), ReduceOp::MAX).get().delegated, "MAX stays");
  check(!first.allreduce(Tensor(ScalarType::Double, {1, 2})).get().delegated, "float64 stays");
  check(!first.allreduce({ints(5, 0, 0), ints(5, 1, 0)}, false).get().delegated, "several stay");
  const std::vector<Tensor> several{ints(5, me.rank, 0), ints(700, me.rank, 3)};
  check(first.allreduce(several, true).get().delegated, "several in one row");
  me.checkSum(several[0], "");
  me.checkSum(several[1], "", 3);
  making.join();
  done = true;
  reading.join();
}

/// Two groups made at the same time in any order: at most one delegates, and the ranks agree.
void race(const Rank& me) {
  for (int round = 0; round < 10; ++round) {
    const auto use = [&me, round](const char* name) {
      auto group = me.group(name + std::to_string(round));
      auto tensor = ints(100, me.rank, 0);
      const auto outcome = group.allreduce(tensor).get();
      check(outcome.error.empty(), outcome.error);
      if (outcome.delegated) {
        me.checkSum(tensor, "");
      }
    };
    std::thread other(use, me.rank % 2 == 0 ? "a" : "b");
    use(me.rank % 2 == 0 ? "b" : "a");
    other.join();
  }
}

/// Each of two threads makes a group, the ranks in another order: no group delegates, and none says
/// that the other does.
void crossed(const Rank& me) {
  const bool required = std::getenv("SWITCHML_REQUIRE") != nullptr;
  const auto use = [&](const char* name) {
    const auto error = thrown([&] {
      auto group = me.group(name);
      me.sum(group, 1, false);
    });
    check(required == (error.find("another process group is being made") != std::string::npos),
          error);
  };
  std::promise<void> reserved;
  std::promise<void> refused;
  std::thread first([&] {
    DirectoryStore::onAccess("capabilities/1", [&] {
      reserved.set_value();
      refused.get_future().wait_for(std::chrono::minutes(1));
    });
    use(me.rank == 0 ? "a" : "b");
  });
  reserved.get_future().wait();
  DirectoryStore::onAccess("capabilities/1", [&] { refused.set_value(); });
  use(me.rank == 0 ? "b" : "a");
  first.join();
}

/// While a thread starts the context of a failed group anew, which takes a while, another one makes
/// a group.
void restarted(const Rank& me) {
  for (int round = 0; round < 10; ++round) {
    const auto number = std::to_string(round);
    {
      auto group = me.group("failed" + number);
      me.sum(group, 1, true);
      me.meet("summed" + number);
      group.abort();
    }
    const auto use = [&](const char* name) {
      auto group = me.group(name + number);
      auto tensor = ints(100, me.rank, 0);
      const auto outcome = group.allreduce(tensor).get();
      check(outcome.error.empty(), outcome.error);
    };
    std::promise<void> reserved;
    std::thread first([&] {
      DirectoryStore::onAccess("capabilities", [&] { reserved.set_value(); });
      use("a");
    });
    reserved.get_future().wait();
    use("b");
    first.join();
  }
}

/// The group ends on each rank just before it would begin to delegate. A later one delegates.
void departed(const Rank& me) {
  DirectoryStore store(me.root, "departed");
  const std::vector<std::shared_ptr<Context>> contexts{std::make_shared<Context>()};
  DirectoryStore::onAccess(me.rank == 0 ? "probe/1" : "probe",
                           [&] { switchml_delegate::leave(contexts); });
  const auto error =
      thrown([&] { switchml_delegate::join(store, contexts, me.rank, me.size, me.timeout, {}); });
  check(error.find("has ended while it was made") != std::string::npos, error);
  delegated(me);
}

/// The first group that agrees delegates until it ends, which rank 0 does later than the others.
/// SWITCHML_GROUP=2 leaves the first of each size to Gloo, whichever groups of other sizes there
/// are.
void numbered(const Rank& me) {
  const DirectoryStore store(me.root, "first");
  auto first = std::make_unique<Group>(store, me.rank, me.size, me.timeout);
  me.sum(*first, 2, false);
  if (me.rank == 0) {
    Group(DirectoryStore(me.root, "alone"), 0, 1, me.timeout);
  } else {
    first.reset();
  }
  {
    auto second = me.group("second");
    auto third = me.group("third");
    me.sum(third, 2, false);
    me.sum(second, 3, true);
  }
  auto fourth = me.group("fourth");
  me.sum(fourth, 3, true);
}

/// A group sums less than another one of the same ranks.
void outweighed(const Rank& me) {
  auto busy = me.group("busy");
  auto other = me.group("other");
  me.sum(busy, 3, true);
  me.sum(other, 3, false);
  check(!other.allreduce(ints(5000, me.rank, 0), ReduceOp::MAX).get().delegated, "MAX stays");
  check(!other.allreduce(ints(500, me.rank, 0)).get().delegated, "another group stays");
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string part; std::getline(in, part, separator);) {
    out.push_back(part);
  }
  return out;
}

/// Takes the steps that STEPS names one after the other, all ranks at once: `0-2` is a group of
/// these ranks, `end` ends all groups, `fork` has a child that exits as a program does. Prints how
/// each group of this rank goes.
void grouped(const Rank& me) {
  std::list<Group> groups;
  int number = 0;
  for (const auto& step : split(std::getenv("STEPS"), ' ')) {
    me.meet("step" + std::to_string(++number));
    if (step == "end") {
      groups.clear();
      continue;
    }
    if (step == "fork") {
      inChild([] { std::exit(0); });
      continue;
    }
    const auto members = split(step, '-');
    const auto found = std::find(members.begin(), members.end(), std::to_string(me.rank));
    if (found == members.end()) {
      continue;
    }
    const Rank member{me.root, static_cast<int>(found - members.begin()),
                      static_cast<int>(members.size()), me.timeout, me.limit};
    const auto error = thrown([&] {
      const DirectoryStore store(me.root, std::to_string(number) + "/" + step);
      groups.emplace_back(store, member.rank, member.size, member.timeout);
    });
    check(error.empty() || error.find("SWITCHML_REQUIRE is set") == 0, error);
    std::string outcome = "raises";
    if (error.empty()) {
      const auto tensor = ints(10'000, member.rank, 0);
      const bool delegated = groups.back().allreduce(tensor).get().delegated;
      outcome = delegated ? "delegates" : "gloo";
      delegated ? member.checkSum(tensor, "") : void();
    }
    std::fprintf(stderr, "group %s: %s\n", step.c_str(), outcome.c_str());
  }
  me.meet("last");
}

/// Runs a scenario in a new process below this one, with the configuration of a directory.
void runBelow(const Rank& me, const char* scenario, const char* directory) {
  const auto root = me.root.string() + "-" + directory;
  const auto rank = std::to_string(me.rank);
  const auto size = std::to_string(me.size);
  inChild([&] {  // whose sums may be Gloo's
    check(chdir(directory) == 0, "the directory");
    dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    execl("/proc/self/exe", "delegate", scenario, rank.c_str(), size.c_str(), root.c_str(), "60000",
          nullptr);
    _exit(1);
  });
}

/// An allreduce of just the least number of elements is delegated, with 8 bits from the least
/// number on that is summed so. The report counts the words that are sent.
void sized(const Rank& me) {
  auto group = me.group("sized");
  std::uint64_t words = 0;
  const auto expectWords = [&words](std::uint64_t more) {
    words += more;
    const auto counted = "\"bytes\": " + std::to_string(4 * words) + ",";
    check(report().find(counted) != std::string::npos, counted + " in " + report());
  };
  const auto tensor = ints(5, me.rank, 0);
  check(!group.allreduce(ints(4, me.rank, 0)).get().delegated, "less than SWITCHML_MIN_NUMEL");
  check(group.allreduce(tensor).get().delegated, "as much as SWITCHML_MIN_NUMEL");
  me.checkSum(tensor, "");
  expectWords(5);
  const std::vector<Tensor> row{ints(2, me.rank, 0), ints(3, me.rank, 0)};
  check(group.allreduce(row, true).get().delegated, "as much in all");
  expectWords(5);
  const auto sumFloats = [&](std::size_t numel) {
    const Tensor floats(ScalarType::Float, std::vector<std::int32_t>(numel));
    check(group.allreduce(floats).get().delegated, "floats");
  };
  sumFloats(6);
  expectWords(6);
  sumFloats(7);  // a scale for each rank, and three lanes of 9 bits in a word
  expectWords(2 + 3);
}

/// A process that a rank starts has the rank's environment, and makes a group with the others'.
void assisted(const Rank& me, Group& group) {
  runBelow(me, "refused", ".");
  me.sum(group, 3, true);
}

/// A worker that was forked while a group delegated lives on after the end of the group: it does
/// not keep other processes from SwitchML.
void outlasted(const Rank& me) {
  int ends[2];
  check(pipe(ends) == 0, "a pipe");
  pid_t worker = 0;
  {
    auto group = me.group("outlasted");
    me.sum(group, 3, true);
    worker = fork();
    if (worker == 0) {
      char none = 0;
      close(ends[1]);
      _exit(static_cast<int>(read(ends[0], &none, 1)));
    }
  }
  runBelow(me, "delegated", "again");
  check(waitpid(worker, nullptr, WNOHANG) == 0, "the worker lives");
  close(ends[1]);
  int status = 1;
  check(waitpid(worker, &status, 0) == worker && status == 0, "the worker ends");
}

/// Makes stderr a full pipe that nobody reads.
class UnreadStderr {
 public:
  UnreadStderr() {
    int ends[2];
    check(pipe(ends) == 0 && fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0, "a pipe");
    const std::vector<char> block(4096);
    while (write(ends[1], block.data(), block.size()) > 0) {
    }
    check(fcntl(ends[1], F_SETFL, 0) == 0, "a full pipe");
    check(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO, "stderr");
    reader_ = ends[0];
  }
  ~UnreadStderr() {
    // The client library's own threads write their lines now.
    std::vector<char> space(1U << 20U);
    check(read(reader_, space.data(), space.size()) > 0, "the pipe has room");
    check(dup2(before_, STDERR_FILENO) == STDERR_FILENO, "stderr as before");
  }
  UnreadStderr(const UnreadStderr&) = delete;
  UnreadStderr& operator=(const UnreadStderr&) = delete;

 private:
  int reader_ = -1;
  const int before_ = dup(STDERR_FILENO);
};

/// A pipe that nobody reads is full. As stderr it keeps nobody: neither a sum that fails, nor one
/// behind it, nor who aborts the group.
void unread(const Rank& me, Group& group) {
  if (me.rank == 0) {
    alarm(60);
    auto pipe = std::make_unique<UnreadStderr>();
    auto first = group.allreduce(ints(10, me.rank, 0));
    auto behind = group.allreduce(ints(10, me.rank, 0));
    const bool aborts = std::getenv("ABORTS") != nullptr;
    if (aborts) {
      group.abort();
    }
    const auto error = first.get().error;
    group.abort();
    const auto next = behind.get().error;
    pipe.reset();
    check(error.find(aborts ? "was aborted" : "did not finish within") != std::string::npos, error);
    check(next == error, "the first reason: " + next);
    alarm(0);
  }
  me.meet("end");
}

/// Without the library too, only the first line waits for a reader.
void unheard(const Rank& me) {
  {
    const UnreadStderr pipe;
    for (const char* name : {"first", "second"}) {
      me.group(name);
    }
  }
  check(vainWaits() == 1, std::to_string(vainWaits()) + " lines have waited");
}

void abandoned(const Rank& me, Group& group) {
  group.make(ints(10, me.rank, 0), ReduceOp::SUM);
  const auto error = group.allreduce(ints(10, me.rank, 0)).get().error;
  check(error.find("dropped before it was submitted") != std::string::npos, error);
}

/// One rank drops an allreduce while another one is under way, with failover: the others learn that
/// it is gone.
void dropped(const Rank& me, Group& group) {
  me.meet("summed");
  std::future<Outcome> waiting;
  if (me.rank == 1) {
    waiting = group.allreduce(ints(10, me.rank, 0));
    std::this_thread::sleep_for(milliseconds(20));
    group.make(ints(10, me.rank, 0), ReduceOp::SUM);
  }
  me.meet("dropped");
  std::future<Outcome> first;
  if (me.rank != 1) {
    first = group.allreduce(ints(10, me.rank, 0));  // rank 1 may still have its packets answered
    waiting = group.allreduce(ints(10, me.rank, 1));
  }
  const auto error = waiting.get().error;
  const auto* const expected =
      me.rank == 1 ? "allreduce number 4 was dropped before it was submitted" : "rank 1 is gone";
  check(error.find(expected) != std::string::npos, error);
  check(error.find("no message") == std::string::npos, "nobody waits for it: " + error);
  me.meet("told");  // the group ends with the rank
}

/// Sums the tensor of `work` with these steps; returns what was thrown.
std::string reduced(Work& work, const switchml_delegate::PartCallbacks& callbacks) {
  const switchml_delegate::RowLayout<Tensor> parts(work.inputs);
  return thrown([&] { work.call.reduce(parts, parts, callbacks); });
}

/// On one rank the values of the second part cannot be had, while the first is with the library.
void interrupted(const Rank& me, Group& group) {
  const auto work = group.make(ints(5000, me.rank, 0));
  std::vector<std::int64_t> ends;
  switchml_delegate::PartCallbacks callbacks;
  if (me.rank == 0) {
    callbacks.before = [](std::int64_t first, std::int64_t last) {
      check(last - first == 1000, "the part that the environment says");
      if (first == 1000) {
        throw std::runtime_error("no values");
      }
    };
  }
  callbacks.after = [&ends](std::int64_t /*first*/, std::int64_t last) { ends.push_back(last); };
  const auto error = reduced(*work, callbacks);
  const auto expected = me.rank == 0 ? "no values" : "SwitchML";
  check(error.find(expected) != std::string::npos, error);
  check(ends.size() <= 1, "a part without the other rank is no sum");
  const auto next = group.allreduce(ints(10, me.rank, 0)).get().error;
  check(!next.empty() && (me.rank != 0 || next.find("dropped before") != std::string::npos), next);
}

/// On one rank the results of a part cannot be taken while the next part is with the library.
void untaken(const Rank& me) {
  auto group = me.group("untaken");
  const auto work = group.make(ints(2000, me.rank, 0));
  switchml_delegate::PartCallbacks callbacks;
  callbacks.after = [&me](std::int64_t /*first*/, std::int64_t /*last*/) {
    if (me.rank == 0) {
      throw std::runtime_error("no room");
    }
  };
  const auto error = reduced(*work, callbacks);
  check(me.rank != 0 || error == "no room", error);
  const auto next = group.allreduce(ints(10, me.rank, 0)).get().error;
  check(!next.empty(), "the process uses SwitchML no more");
  check(me.rank != 0 || next.find("dropped before it was finished") != std::string::npos, next);
}

/// A thread takes sequence numbers while groups come and go. The library's rule that a group is not
/// used after its end does not bind it: no number is ever taken.
void readers(const Rank& me) {
  std::atomic<bool> done{false};
  std::thread reader([&done] {
    Context stranger;
    while (!done) {
      check(!switchml_delegate::delegate()->delegates(&stranger),
            "no group of a stranger delegates");
      const auto sequence = switchml_delegate::delegate()->takeSequence(
          &stranger, {switchml_delegate::Element::kFloat32, switchml_delegate::Op::kSum, 1, 0});
      check(sequence == switchml_delegate::kNoSequence, "nothing to sum, no number");
    }
  });
  for (int i = 0; i < 20; ++i) {
    auto group = me.group("readers" + std::to_string(i));
    me.sum(group, 5, true);
  }
  done = true;
  reader.join();
}

/// Several callers end a group. The next one delegates only when the failover of this one, which
/// may stop the context, has ended; and a call that is dropped later is nobody's.
void ended(const Rank& me) {
  for (int i = 0; i < 20; ++i) {
    auto group = me.group("ended" + std::to_string(i));
    const auto dropped = group.make(ints(10, me.rank, 0));
    std::atomic<int> come{0};
    inThreads(4, [&](std::size_t /*caller*/) {
      DirectoryRing::onAbort = [&] {
        auto next = me.group("next" + std::to_string(i));
        me.sum(next, 1, false);
      };
      for (++come; come < 4;) {
      }
      group.leave();
      DirectoryRing::onAbort = nullptr;
    });
  }
  check(report().find("\"failure\": \"\"") != std::string::npos, report());
  delegated(me);
}

void reported(const Rank& me) {
  delegated(me);
  std::fprintf(stderr, "%s\n", report().c_str());
}

/// Waits until the metrics of this rank have a line.
void awaitMetric(const Rank& me, const std::string& line) {
  const auto mine = "rank=\"" + std::to_string(me.rank) + "\"";
  for (;;) {
    for (const auto& entry : std::filesystem::directory_iterator(std::getenv("SWITCHML_METRICS"))) {
      std::ifstream in(entry.path());
      const std::string page{std::istreambuf_iterator<char>(in), {}};
      if (page.find(mine) != std::string::npos && page.find(line) != std::string::npos) {
        return;
      }
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
}

/// The metrics follow the calls, and say at once that the group has ended.
void measured(const Rank& me) {
  {
    auto group = me.group("measured");
    awaitMetric(me, "state=\"delegating\"} 1\n");
    me.sum(group, 3, true);
    check(!group.allreduce(ints(5, me.rank, 0), ReduceOp::MAX).get().delegated, "MAX stays");
    if (std::getenv("SWITCHML_METRICS_SECONDS") == std::string("1")) {
      awaitMetric(me, "reason=\"op\"} 1\n");
    }
  }
  awaitMetric(me, "state=\"gloo\"} 1\n");
  std::fprintf(stderr, "%s\n", report().c_str());
}

/// Neither the group nor one that is made later.
void refused(const Rank& me) {
  const bool late = std::getenv("FAULT_MS") != nullptr;
  for (const char* name : {"refused", "later"}) {
    auto group = me.group(name);
    me.sum(group, 3, false);
    check(std::getenv("NO_LIBRARY") != nullptr ||
              report().find(late && name[0] == 'r' ? "\"late\": true" : "\"late\": false") !=
                  std::string::npos,
          report());
  }
}

void forksafe(const Rank& me) {
  auto group = me.group("forksafe");
  for (const char* name :
       {"RDMAV_FORK_SAFE", "RDMAV_HUGEPAGES_SAFE", "SWITCHML_START_TIMEOUT_MS"}) {
    const char* const value = std::getenv(name);
    std::fprintf(stderr, "%s=%s\n", name, value == nullptr ? "" : value);
  }
}

/// inf at the ends of packets, pieces and parts has become 2^126, which the simulator's fixed point
/// has a place for: of inf it would make NaN.
void overflowed(const Rank& me) {
  constexpr std::size_t kNumel = 1'300'000;
  constexpr std::size_t kPacket = 256;
  auto group = me.group("overflowed");
  for (const auto type : {ScalarType::Float, ScalarType::BFloat16}) {
    std::vector<float> values(kNumel, static_cast<float>(me.rank + 1));
    const std::set<std::size_t> places{0, 300, 65535, 262143, 262144, 1048575, kNumel - 1};
    for (const auto place : places) {
      values[place] = me.rank == 0 ? std::numeric_limits<float>::infinity() : 1;
    }
    std::vector<std::int32_t> words(kNumel);
    std::memcpy(words.data(), values.data(), kNumel * sizeof(float));
    const Tensor tensor(type, std::move(words));
    const auto error = group.allreduce(tensor).get().error;
    check(error.empty(), error);
    std::memcpy(values.data(), tensor.data_ptr(), kNumel * sizeof(float));
    const auto sum = static_cast<float>(me.size * (me.size + 1)) / 2;
    for (std::size_t i = 0; i < kNumel; ++i) {
      if (std::fabs(values[i] - sum) < 1e-6F && places.count(i) == 0) {
        continue;
      }
      const auto next = places.upper_bound(i);
      const bool near = (next != places.end() && *next < i + kPacket) ||
                        (next != places.begin() && i < *std::prev(next) + kPacket);
      check(places.count(i) != 0 ? std::fabs(values[i] - 0x1p126F) < 0x1p110F
                                 : near && std::isfinite(values[i]),
            "the value at " + std::to_string(i) + ": " + std::to_string(values[i]));
    }
  }
}

/// The values of the first allreduce come later than the limit of the one behind it.
void queued(const Rank& me) {
  auto group = me.group("queued");
  const auto first = group.make(ints(3000, me.rank, 0));
  const auto behind = ints(10, me.rank, 0);
  auto outcome = group.allreduce(behind);
  switchml_delegate::PartCallbacks callbacks;
  callbacks.before = [&me](std::int64_t from, std::int64_t /*last*/) {
    std::this_thread::sleep_for(from == 0 ? me.limit * 3 / 2 : milliseconds(0));
  };
  me.checkSum(first->inputs[0], reduced(*first, callbacks));
  me.checkSum(behind, outcome.get().error);
}

/// Two at once, each of which takes less than the limit, and both together more.
void consecutive(const Rank& me) {
  auto group = me.group("consecutive");
  const std::vector<std::shared_ptr<Work>> works{group.make(ints(4000, me.rank, 0)),
                                                 group.make(ints(4000, me.rank, 0))};
  switchml_delegate::PartCallbacks callbacks;
  callbacks.before = [&me](std::int64_t /*first*/, std::int64_t /*last*/) {
    std::this_thread::sleep_for(me.limit / 5);
  };
  auto second = std::async(std::launch::async, [&] { return reduced(*works[1], callbacks); });
  me.checkSum(works[0]->inputs[0], reduced(*works[0], callbacks));
  me.checkSum(works[1]->inputs[0], second.get());
}

/// One rank hands both in at once, the other one after the other, each within the limit.
void apart(const Rank& me) {
  auto group = me.group("apart");
  const std::vector<Tensor> tensors{ints(10, me.rank, 0), ints(10, me.rank, 0)};
  std::vector<std::future<Outcome>> outcomes;
  for (const auto& tensor : tensors) {
    std::this_thread::sleep_for(me.rank == 0 ? milliseconds(0) : me.limit * 3 / 5);
    outcomes.push_back(group.allreduce(tensor));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    me.checkSum(tensors[i], outcomes[i].get().error);
  }
}

/// A call that waits for its turn hears that the group was aborted, while the one before it is
/// stuck.
void aborted(const Rank& me) {
  auto group = me.group("aborted");
  const auto first = group.make(ints(10, me.rank, 0));
  auto behind = group.allreduce(ints(10, me.rank, 0));
  std::promise<void> stuck;
  std::promise<void> release;
  switchml_delegate::PartCallbacks callbacks;
  callbacks.before = [&](std::int64_t /*first*/, std::int64_t /*last*/) {
    stuck.set_value();
    release.get_future().wait();
  };
  auto outcome = std::async(std::launch::async, [&] { return reduced(*first, callbacks); });
  stuck.get_future().wait();
  group.abort();
  const auto error = behind.get().error;
  check(error.find("was aborted") != std::string::npos, error);
  release.set_value();
  check(outcome.get() == error, "the first reason");
}

/// The other ranks take part in the first sum only: an exception after the timeout, then at once.
void late(const Rank& me, Group& group) {
  for (int i = 0; me.rank == 0 && i < 2; ++i) {
    auto first = group.allreduce(ints(10, me.rank, 0));
    auto behind = group.allreduce(ints(10, me.rank, 0));
    const auto error = first.get().error;
    check(error.find("did not finish within") != std::string::npos, error);
    check(behind.get().error == error, "the first reason");
  }
  me.meet("end");
}

/// One rank times out and goes on with its tensor; the other comes after that.
void tardy(const Rank& me, Group& group) {
  constexpr std::size_t kNumel = 1'000'000;
  auto tensor = ints(kNumel, me.rank, 0);
  if (me.rank == 0) {
    const auto error = group.allreduce(tensor).get().error;
    check(error.find("did not finish within") != std::string::npos, error);
    tensor.copy_(Tensor(ScalarType::Int, std::vector<std::int32_t>(kNumel, -7)));
    me.meet("failed");
    std::this_thread::sleep_for(me.limit / 4);
    for (const auto word : tensor.values()) {
      check(word == -7, "the tensor of a failed allreduce is the caller's");
    }
  } else {
    me.meet("failed");
    const auto outcome = group.allreduce(tensor).get();
    check(!outcome.error.empty(), "a sum without the other rank");
  }
}

/// Sums a tensor whose values come and go part by part, as those of a device.
void sumStaged(const Rank& me, Group& group, std::size_t numel) {
  const auto device = ints(numel, me.rank, 0);
  const auto work = group.make(Tensor(ScalarType::Int, std::vector<std::int32_t>(numel)));
  work->call.limit(milliseconds::max());  // as of a program that would wait for ever
  auto* const there = static_cast<std::int32_t*>(device.data_ptr());
  auto* const here = static_cast<std::int32_t*>(work->inputs[0].data_ptr());
  switchml_delegate::PartCallbacks callbacks;
  callbacks.before = [=](auto first, auto last) {
    std::copy(there + first, there + last, here + first);
  };
  callbacks.after = [=](auto first, auto last) {
    std::copy(here + first, here + last, there + first);
  };
  me.checkSum(device, reduced(*work, callbacks));
}

/// Rank 1 is later than rank 0 waits, which takes seconds.
void awaitFailover(const Rank& me, int number) {
  const auto count = "\"failovers\": " + std::to_string(number) + ",";
  while (me.rank == 1 && report().find(count) == std::string::npos) {
    std::this_thread::sleep_for(milliseconds(10));
  }
}

/// A rank comes later than the others wait, with several calls in flight: all go on over Gloo.
void outlived(const Rank& me, Group& group) {
  for (int i = 0; i < 2; ++i) {
    awaitFailover(me, 1);
    std::vector<Tensor> tensors;
    std::vector<std::future<Outcome>> outcomes;
    for (const std::size_t numel : {10, 4500, 1, 3000}) {
      tensors.push_back(ints(numel, me.rank, 0));
      outcomes.push_back(group.allreduce(tensors.back()));
    }
    const std::vector<Tensor> row{ints(700, me.rank, 0), ints(2500, me.rank, 0)};
    auto coalesced = group.allreduce(row, true);
    sumStaged(me, group, 4500);
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      const auto outcome = outcomes[k].get();
      check(outcome.error.empty() && outcome.delegated, outcome.error);
      me.checkSum(tensors[k], outcome.error);
    }
    const auto error = coalesced.get().error;
    me.checkSum(row[0], error);
    me.checkSum(row[1], error);
  }
  std::fprintf(stderr, "%s\n", report().c_str());
  auto later = me.group("later");
  me.sum(later, 1, false);
}

/// Ranks that went over Gloo return to the library at call 64, with many calls in flight; and
/// again. Then a new group delegates. Where the library starts once, they stay with Gloo.
void returned(const Rank& me) {
  const bool returns = std::getenv("STAYS") == nullptr;
  {
    auto group = me.group("returned");
    me.sum(group, 3, true);
    for (int failure = 1; failure <= 2; ++failure) {
      awaitFailover(me, failure);
      me.sum(group, 70, true);
      const auto count = "\"returns\": " + std::to_string(returns ? failure : 0);
      check(report().find(count) != std::string::npos, report());
      if (!returns) {
        break;
      }
    }
    std::fprintf(stderr, "%s\n", report().c_str());
  }
  auto later = me.group("later");
  me.sum(later, 3, returns);
}

/// The first try to return fails, the second does not.
void retried(const Rank& me, Group& group) {
  awaitFailover(me, 1);
  for (const int returns : {0, 1}) {
    me.sum(group, 70, true);
    const auto count = "\"returns\": " + std::to_string(returns);
    check(report().find(count) != std::string::npos, report());
  }
}

/// A sum fails on one rank only, without failover: a new group starts the contexts of all anew.
void renewed(const Rank& me) {
  {
    auto group = me.group("failed");
    me.sum(group, 3, true);
    if (me.rank == 0) {
      const auto error = group.allreduce(ints(10, me.rank, 0)).get().error;
      check(error.find("did not finish within") != std::string::npos, error);
    }
    me.meet("failed");
  }
  for (const char* name : {"renewed", "later"}) {
    auto group = me.group(name);
    me.sum(group, 3, std::getenv("STAYS") == nullptr);
  }
}

/// The library hangs. What it would have made NaN is NaN over Gloo as well, and all else is right.
void hung(const Rank& me, Group& group) {
  constexpr std::size_t kNumel = 3000;
  std::vector<float> values(kNumel, static_cast<float>(me.rank + 1));
  values[7] = me.rank == 0 ? std::numeric_limits<float>::infinity() : 1;
  values[2500] = me.rank == 1 ? std::numeric_limits<float>::quiet_NaN() : 1;
  std::vector<std::int32_t> words(kNumel);
  std::memcpy(words.data(), values.data(), kNumel * sizeof(float));
  const Tensor tensor(ScalarType::Float, std::move(words));
  const auto whole = ints(kNumel, me.rank, 0);
  auto later = group.allreduce(tensor);
  auto last = group.allreduce(whole);
  check(later.get().error.empty(), "the sum of floats");
  me.checkSum(whole, last.get().error);
  std::memcpy(values.data(), tensor.data_ptr(), kNumel * sizeof(float));
  for (std::size_t i = 0; i < kNumel; ++i) {
    const auto right = static_cast<float>(me.size * (me.size + 1)) / 2;
    check(i == 7 || i == 2500 ? std::isnan(values[i]) : values[i] == right,
          "the value at " + std::to_string(i) + ": " + std::to_string(values[i]));
  }
}

/// The input of a job that hangs is there until the library has stopped, which takes a while.
void kept(const Rank& me, Group& group) {
  std::weak_ptr<std::vector<std::int32_t>> input;
  {
    auto tensor = ints(3000, me.rank, 0);
    input = tensor.storage();
    check(group.allreduce(std::move(tensor)).get().error.empty(), "the sum over Gloo");
  }
  check(!input.expired(), "the library may still read it");
  for (int i = 0; i < 40; ++i) {
    std::this_thread::sleep_for(milliseconds(100));
    check(group.allreduce(ints(10, me.rank, i)).get().error.empty(), "a later sum");
  }
  until([&] { return input.expired(); });
}

/// A job is handed over all the same where that throws: its memory stays until the end.
void taken(const Rank& me) {
  auto group = me.group("taken");
  const auto error = group.allreduce(ints(3000, me.rank, 0)).get().error;
  check(error.empty() == (std::getenv("RAISES") == nullptr), error);
  me.meet("end");
}

/// The program ends while a thread waits for a sum in which the other rank takes no part. As
/// Python, the process is aborted where the thread comes back.
void waiting(const Rank& me) {
  static auto& group = *new Group(me.group("waiting"));
  me.sum(group, 3, true);
  if (me.rank == 0) {
    std::thread([] {
      group.allreduce(ints(10, 0, 0)).wait();
      std::abort();
    }).detach();
  }
  std::this_thread::sleep_for(milliseconds(me.rank == 0 ? 500 : 4000));
}

/// The program ends while a thread ends the group or aborts it, which takes a while. As Python, the
/// process is aborted where the thread comes back.
void leaving(const Rank& me) {
  static auto& group = *new Group(me.group("leaving"));
  me.sum(group, 3, true);
  static auto& inside = *new std::promise<void>;
  std::thread([] {
    const auto pause = [] {
      inside.set_value();
      std::this_thread::sleep_for(milliseconds(300));
    };
    const bool aborts = std::getenv("ABORTS") != nullptr;
    aborts ? DirectoryStore::onAccess("ring/", pause) : void(DirectoryRing::onAbort = pause);
    aborts ? group.abort() : group.leave();
    std::abort();
  }).detach();
  inside.get_future().wait();
}

/// The program ends while a thread starts the context, for the first time or, with AGAIN, anew.
void starting(const Rank& me) {
  contextRuns();  // makes the context, so it is destroyed after `late`
  static const struct Late {
    ~Late() { check(!contextRuns(), "no static object is destroyed under a context that runs"); }
  } late;
  if (std::getenv("AGAIN") != nullptr) {
    auto group = me.group("failed");
    me.sum(group, 1, true);
    group.abort();
  }
  until([] { return !contextRuns(); });
  std::thread([me] {
    me.group("starting");
    std::abort();  // as Python, where the thread comes back
  }).detach();
  until(contextRuns);
}

/// A job is not handed over on one rank, with many calls in flight: the next one does not take its
/// place.
void lost(const Rank& me, Group& group) {
  std::vector<Tensor> tensors;
  std::vector<std::future<Outcome>> outcomes;
  for (int i = 0; i < 8; ++i) {
    tensors.push_back(ints(10, me.rank, i));
    outcomes.push_back(group.allreduce(tensors.back()));
  }
  for (int i = 0; i < 8; ++i) {
    me.checkSum(tensors[i], outcomes[i].get().error, i);
  }
}

/// A child has none of the library's threads: its groups stay with Gloo, and it ends at once.
void forked(const Rank& me, Group& group) {
  const auto child = [&] {
    const auto work = group.make(ints(3, me.rank, 0), ReduceOp::SUM);
    const auto inherited = thrown([&] { work->call.allreduce(work->inputs); });
    check(inherited.find("before this process was forked") != std::string::npos, inherited);
    check(report().find("\"delegating\": false, \"failure\": \"SwitchML was started before") !=
              std::string::npos,
          report());
    DirectoryStore store(me.root, "child" + std::to_string(me.rank));
    std::vector<std::shared_ptr<Context>> contexts{std::make_shared<Context>()};
    switchml_delegate::join(store, contexts, 0, 1, me.timeout, {});
    check(!switchml_delegate::delegate()->delegates(contexts[0].get()),
          "a forked child must not delegate");
    // The next one is where the inherited one was.
    DirectoryStore again(me.root, "again" + std::to_string(me.rank));
    switchml_delegate::join(again, group.contexts(), 0, 1, me.timeout, {});
    const auto own = group.make(ints(3, me.rank, 0), ReduceOp::SUM);
    check(!own->call.allreduce(own->inputs), "Gloo sums in a group of the child's own");
    std::exit(23);
  };
  inChild(child, 23);
  me.sum(group, 3, true);
}

/// A thread is in the middle of making a group when the process forks: it has the reservation. The
/// child has no such thread, and can do all that a new process can.
void midway(const Rank& me) {
  std::promise<void> reserved;
  std::promise<void> goes;
  std::thread other([&] {
    DirectoryStore::onAccess("capabilities", [&] {
      reserved.set_value();
      goes.get_future().wait();
    });
    auto group = me.group("other");
    me.sum(group, 1, true);
  });
  reserved.get_future().wait();
  const auto child = [&] {
    alarm(60);
    report();
    delegated(me);
    check(report().find("goes to SwitchML") != std::string::npos, report());
    std::exit(23);
  };
  inChild(child, 23);
  check(report().find("\"group\": \"\"") != std::string::npos, "a report while a group is made");
  goes.set_value();
  other.join();
}

/// A sum in the destructor of a static object, after the context has stopped: the process is at its
/// end, and waits for nothing.
void buried(const Rank& me) {
  static std::unique_ptr<Group> group;
  static const struct Late {
    ~Late() {
      alarm(40);
      const auto work = group->make(ints(10, 0, 0));
      const auto own = thrown([&] { work->call.allreduce(work->inputs); });
      const auto other = group->allreduce(ints(10, 0, 0)).get().error;
      check(own == "SwitchML allreduce failed: the process is exiting" && other == own, own);
      alarm(0);
    }
  } late;
  group.reset(new Group(me.group("buried")));
  me.sum(*group, 3, true);
}

/// A child ends while another thread of it keeps a stream.
void locked(const Rank& me, Group& group) {
  const auto child = [] {
    alarm(40);
    std::promise<void> keeps;
    std::thread([&keeps] {
      flockfile(stdout);
      keeps.set_value();
      pause();
    }).detach();
    keeps.get_future().wait();
    std::exit(23);
  };
  inChild(child, 23);
  me.sum(group, 3, true);
}

/// One of the attempts over a Store that is not theirs alone.
void attempt(const Rank& me) {
  const auto value = [](const char* name) {
    const char* const given = std::getenv(name);
    return given == nullptr ? 0 : std::atoi(given);
  };
  std::this_thread::sleep_for(milliseconds(value("LATE_MS")));
  auto group = me.group("attempt");
  me.sum(group, 3, value("DELEGATES") != 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && argv[1] == std::string("threads")) {
    checkThreads(argc > 2);
    std::puts("ok");
    return 0;
  }
  if (argc > 2 && argv[1] == std::string("refusal")) {
    printRefusal(argv[2], argc > 3);
    return 0;
  }
  check(argc == 6, "usage: delegate SCENARIO RANK SIZE STORE TIMEOUT_MS");
  const milliseconds timeout(std::atoi(argv[5]));
  const char* const limit = std::getenv("SWITCHML_TIMEOUT_MS");
  const Rank me{argv[4], std::atoi(argv[2]), std::atoi(argv[3]), timeout,
                limit == nullptr ? timeout : milliseconds(std::atoi(limit))};
  const std::string scenario = argv[1];
  const std::map<std::string, void (*)(const Rank&)> scenarios = {
      {"abandoned", delegating<abandoned>},
      {"aborted", aborted},
      {"apart", apart},
      {"assisted", delegating<assisted>},
      {"attempt", attempt},
      {"buried", buried},
      {"concurrent", concurrent},
      {"consecutive", consecutive},
      {"crossed", crossed},
      {"delegated", delegated},
      {"departed", departed},
      {"dropped", delegating<dropped>},
      {"ended", ended},
      {"forked", delegating<forked>},
      {"forksafe", forksafe},
      {"grouped", grouped},
      {"hung", delegating<hung>},
      {"interrupted", delegating<interrupted>},
      {"kept", delegating<kept>},
      {"late", delegating<late>},
      {"leaving", leaving},
      {"locked", delegating<locked>},
      {"lost", delegating<lost>},
      {"measured", measured},
      {"midway", midway},
      {"numbered", numbered},
      {"outlasted", outlasted},
      {"outlived", delegating<outlived>},
      {"outweighed", outweighed},
      {"queued", queued},
      {"race", race},
      {"readers", readers},
      {"refused", refused},
      {"renewed", renewed},
      {"reported", reported},
      {"restarted", restarted},
      {"retried", delegating<retried>},
      {"returned", returned},
      {"overflowed", overflowed},
      {"sized", sized},
      {"starting", starting},
      {"taken", taken},
      {"tardy", delegating<tardy>},
      {"unheard", unheard},
      {"unread", delegating<unread>},
      {"untaken", untaken},
      {"waiting", waiting},
  };
  const auto found = scenarios.find(scenario);
  check(found != scenarios.end() || scenario == "states", "unknown scenario " + scenario);
  scenario == "states" ? checkStates() : found->second(me);
  std::puts("ok");
  return 0;
}
