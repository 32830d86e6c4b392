/// Failover of a group whose context has failed: its ranks go on over Gloo, and return.
///
/// The jobs of a group have numbers 0, 1, 2, ... on all ranks alike. A rank submits job j only when
/// it has finished j - kWindow, and a job finishes on any rank only after all have submitted it. So
/// no rank has finished more than kWindow jobs that another has not. The library reads the caller's
/// memory and writes to memory of its own, whose sum is copied to the caller. So the caller's
/// memory has the input of each job under way, and a rank keeps the sums of the kResults jobs that
/// it finished last. After a failure the library may read the input until its context has stopped.
///
/// After a failure:
///   1. A rank that fails finishes nothing any more, stops its context, and warns the next one in a
///      ring of all ranks, which does the same. Each rank has a thread that waits for this, so a
///      rank without jobs learns of it at once, and nobody waits for its next call. Where nothing
///      fails, that thread costs nothing.
///   2. The ranks exchange how many jobs they have finished. A sum that one of them has is
///      sent to all. So a sum that one rank has returned is what all return.
///   3. The other jobs are summed over the ring, in the order of their numbers.
/// A rank that does not answer is gone: then all throw. So is one whose calls have failed for good.
/// Who gives up, at any time, sends a last warning, which each rank passes on before it throws.
///
/// Calls are counted from the first one without a job before the first of 3, so their numbers are
/// the same on all ranks. At the calls 64, 128, 256, ... the ranks try to use the context again. No
/// later job is submitted meanwhile, and none before is left, so all ranks are at the same place in
/// the order of the jobs. They take one step after another, and each is begun when all ranks have
/// ended the one before: the context has stopped; it starts anew; a pattern is summed rightly.
/// Where a rank cannot, all go on over the ring until the next try.
///
/// tests/support/failover_model.py, return_model.py and warning_model.py search all states of two
/// and three ranks.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>

#include "recover/ring.hpp"

namespace switchml_delegate {

/// Failover of one rank of a group. It calls the delegate without a lock of its own.
class Failover {
 public:
  using Memory = std::shared_ptr<std::uint64_t[]>;
  using Milliseconds = std::chrono::milliseconds;
  using Clock = std::chrono::steady_clock;

  /// Jobs under way at most.
  static constexpr std::uint64_t kWindow = 2;
  /// Finished jobs whose sums are kept.
  static constexpr std::uint64_t kResults = kWindow;

  /// Why a rank does not use its context again. Empty where it does.
  struct Obstacle {
    std::string why;
    bool stays = false;  // it will be there at each later try
  };
  /// A step of a try. `seed` is the same on all ranks but in the first step, and another in each
  /// try.
  using Step = std::function<Obstacle(std::uint64_t seed)>;

  struct Delegate {
    /// Stops the context. What it finishes from then on is not taken.
    std::function<void(const std::string& why)> stop;
    /// Copies bytes that do not overlap.
    std::function<void(void* to, const void* from, std::size_t bytes)> copy;
    /// Says a line on rank 0.
    std::function<void(const std::string& line)> say;
    /// Steps after which the context is used again. The first one leaves it stopped.
    std::vector<Step> steps{};
    /// Called when the ranks have agreed to use it, before the first job.
    std::function<void()> resume{};
    /// Call after a failure at which this is first tried: one that no rank has submitted yet.
    std::uint64_t firstTry = 64;
  };

  /// Counters of all groups of a process.
  struct Counters {
    std::atomic<std::uint64_t> failovers{0};
    std::atomic<std::uint64_t> returns{0};  // after which the context was used again
    std::atomic<std::uint64_t> redone{0};   // jobs that were under way when the context failed
    std::atomic<std::uint64_t> calls{0};    // of which a job was summed over the ring
    std::atomic<std::int64_t> ended{0};     // milliseconds of failovers that have ended
    std::atomic<std::int64_t> since{0};     // when the one that has not began, or 0

    double seconds() const {
      const auto begun = since.load();
      return static_cast<double>(ended.load() + (begun == 0 ? 0 : now() - begun)) / 1000;
    }

    void end() {
      if (const auto begun = since.exchange(0); begun != 0) {
        ended += now() - begun;
      }
    }
  };

  /// `limit`: how long other ranks may take to answer.
  Failover(const Ring& ring, int rank, int size, Milliseconds limit, Delegate delegate,
           Counters& counters)
      : rank_(rank),
        limit_(limit),
        delegate_(std::move(delegate)),
        counters_(counters),
        ring_(ring),
        collectives_(ring, kRecoveries, rank, size),
        callsBefore_(counters.calls),
        secondsBefore_(counters.seconds()) {
    receive();
    try {
      threads_.emplace_back([this] { listen(); });
      threads_.emplace_back([this] { watch(); });
    } catch (...) {
      leave();
      throw;
    }
  }

  ~Failover() { leave(); }
  Failover(const Failover&) = delete;
  Failover& operator=(const Failover&) = delete;

  /// Memory for the sum of a job, once few enough jobs are under way. The caller keeps it for as
  /// long as the library may write to it. Null where the job does not go to the library. Called in
  /// the order of the jobs; `begins`: it is the first of a call.
  Memory admit(std::uint64_t job, bool begins, std::size_t bytes) {
    std::unique_lock<std::mutex> lock(mutex_);
    auto& slot = slotOf(job);
    Memory larger;
    for (std::uint64_t counted = 0;;) {
      changed_.wait(lock, [&] {
        return state_ != State::kRunning || (job < finished_ + kWindow && !slot.used);
      });
      awaitRing(lock);
      if (state_ == State::kRunning && slot.capacity < bytes && !larger) {
        lock.unlock();
        larger = Memory(new std::uint64_t[bytes / sizeof(std::uint64_t) + 1]);
        lock.lock();
        continue;
      }
      if (state_ != State::kRing || counted == failures_) {
        break;
      }
      counted = failures_;
      if (!begins || !isTry(++calls_) || !tries_) {
        break;
      }
      changed_.wait(lock,
                    [&] { return state_ != State::kRing || (next_ == job && received_.empty()); });
      if (state_ == State::kRing) {
        tryToReturn(job, lock);
      }
    }
    if (state_ != State::kRunning) {
      return nullptr;
    }
    if (slot.capacity < bytes) {
      slot.memory = std::move(larger);
      slot.capacity = bytes;
    }
    slot.bytes = bytes;
    slot.used = true;
    slot.begins = begins;
    admitted_ = job + 1;
    return slot.memory;
  }

  /// Gives `data` the sum of a job that the library has finished, when all before it have theirs.
  /// False after a failure: the sum is not to be used.
  bool take(std::uint64_t job, void* data) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return state_ != State::kRunning || finished_ == job; });
    if (state_ != State::kRunning) {
      return false;
    }
    ++finished_;
    auto& slot = slotOf(job);
    const auto memory = slot.memory;
    const auto bytes = slot.bytes;
    lock.unlock();
    changed_.notify_all();
    delegate_.copy(data, memory.get(), bytes);
    lock.lock();
    slot.used = slot.used && slot.memory != memory;  // another session's may be there
    changed_.notify_all();
    return true;
  }

  /// Ends the use of the context, and warns the other ranks.
  void suspend(const std::string& why) noexcept { suspend(warningOf(why)); }

  /// Closes it, and warns the other ranks at once: they throw as well.
  void abort(const std::string& why) noexcept {
    finish(textOrNone([&] { return why; }), textOrNone([&] { return goneText(rank_, why); }));
  }

  /// Replaces `data`, the input of a job that was not taken, by the sum. Throws std::runtime_error
  /// where there is none. `limit` is for each message. `prepare` is called before the data is
  /// summed, when no rank takes a sum of it from its library any more.
  void redo(std::uint64_t job, Element element, void* data, std::uint64_t numel, Milliseconds limit,
            const std::function<void()>& prepare) {
    std::unique_lock<std::mutex> lock(mutex_);
    awaitRing(lock);
    changed_.wait(lock, [&] {
      return isClosed() || (state_ == State::kRing && (job == next_ || received_.count(job) != 0));
    });
    if (isClosed()) {
      throw std::runtime_error(why_);
    }
    if (job < admitted_) {
      ++counters_.redone;
    }
    if (const auto found = received_.find(job); found != received_.end()) {
      const auto sum = std::move(found->second);
      received_.erase(found);
      lock.unlock();
      changed_.notify_all();
      delegate_.copy(data, sum.data(), sum.size());
      return;
    }
    lock.unlock();
    prepare();
    try {
      if (element == Element::kFloat32) {
        collectives_.sum(static_cast<float*>(data), numel, limit);
      } else {
        collectives_.sum(static_cast<std::int32_t*>(data), numel, limit);
      }
    } catch (const std::exception& error) {
      fail(reasonOf(error));
      lock.lock();
      throw std::runtime_error(why_);
    }
    lock.lock();
    ++next_;
    changed_.notify_all();
  }

  /// Ends all waiting: nothing is summed any more, and nobody is warned.
  void close(const std::string& why) noexcept {
    finish(textOrNone([&] { return why; }), {});
    receiving_.abort();
    const std::lock_guard<std::mutex> lock(mutex_);
    state_ = isFinished() ? State::kLeft : State::kLeaving;
    changed_.notify_all();
  }

  /// Closes it, and lets go of the connections.
  void leave() noexcept {
    close(textOrNone([] { return "the process group has ended"; }));
    for (auto& thread : threads_) {
      thread.join();
    }
    threads_.clear();
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return isFinished(); });
    slots_ = {};
    lock.unlock();
    receiving_.end();
    sending_.end();
    collectives_.release();
    ring_ = {};
  }

 private:
  /// kRunning: with the context. kSuspended: it has failed. kWarned: the next rank knows of it.
  /// kRing: the ranks go on over the ring. From kClosing on all calls throw. kLeaving and kLeft:
  /// the same as kClosing and kClosed, and nobody waits for the connections any more.
  ///
  ///     kRunning ──▶ kSuspended ──▶ kWarned ──▶ kRing ──▶ kRunning
  ///         └────────────┴─────────────┴──────────┴──▶ kClosing ──▶ kClosed
  ///                                                        │           │
  ///                                                        ▼           ▼
  ///                                                    kLeaving ──▶  kLeft
  enum class State : std::uint8_t {
    kRunning,
    kSuspended,
    kWarned,
    kRing,
    kClosing,
    kLeaving,
    kClosed,
    kLeft
  };

  bool isSuspended() const { return state_ == State::kSuspended || state_ == State::kWarned; }
  bool isClosed() const { return state_ >= State::kClosing; }
  bool isFinished() const { return state_ >= State::kClosed; }

  struct Slot {
    Memory memory;
    std::size_t capacity = 0;
    std::size_t bytes = 0;
    bool used = false;    // until its sum is copied
    bool begins = false;  // a call
  };

  /// First rank that failed, as far as the sender knows, and why. After the last one all throw.
  struct Warning {
    std::int32_t rank = 0;
    char last = 0;
    char why[251] = "";
  };

  /// Answer of a rank to the others after a step.
  struct Answer {
    std::uint64_t seed = 0;
    char stays = 0;
    char why[247] = "";
  };

  /// Words of a rank, which need not have an end.
  template <std::size_t N>
  static std::string wordsOf(const char (&why)[N]) noexcept {
    return textOrNone([&why] { return printable({why, strnlen(why, N)}); });
  }

  /// Closes it. The next rank receives `news`, if there are any, before messages to it are ended.
  /// Returns the state before.
  State finish(std::string why, const std::string& news) noexcept {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto before = state_;
    if (isClosed()) {
      return before;
    }
    state_ = State::kClosing;
    why_ = std::move(why);  // which nobody changes from here on
    lock.unlock();
    changed_.notify_all();
    counters_.end();
    if (!news.empty()) {
      warnLast(news);
    }
    collectives_.abort();
    std::string line;
    std::function<void(const std::string&)> say;  // this may end as soon as it is closed
    if (before == State::kRing && rank_ == 0) {
      quietly([&] {
        line = text(why_, "; ", counters_.calls - callsBefore_, " allreduces went over Gloo, in ",
                    counters_.seconds() - secondsBefore_, " s");
        say = delegate_.say;
      });
    }
    lock.lock();
    state_ = state_ == State::kLeaving ? State::kLeft : State::kClosed;
    changed_.notify_all();
    lock.unlock();
    if (say) {
      quietly([&] { say(line); });
    }
    return before;
  }

  /// Closes it where the ranks cannot go on, and warns the next one.
  State fail(const std::string& why) noexcept {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto first =
        isSuspended() ? textOrNone([this] { return reason() + "; "; }) : std::string();
    lock.unlock();
    return finish(
        textOrNone([&] { return text(first, "the ranks cannot go on over Gloo: ", why); }), why);
  }

  bool isTry(std::uint64_t call) const {
    const auto first = delegate_.firstTry;
    return call >= first && call % first == 0 && (call / first & (call / first - 1)) == 0;
  }

  static std::int64_t now() {
    return std::chrono::duration_cast<Milliseconds>(Clock::now().time_since_epoch()).count();
  }

  Slot& slotOf(std::uint64_t job) { return slots_.at(job % slots_.size()); }

  void suspend(const Warning& warning) noexcept {
    std::unique_lock<std::mutex> lock(mutex_);
    if (state_ != State::kRunning) {
      return;
    }
    state_ = State::kSuspended;
    cause_ = warning;
    lock.unlock();
    changed_.notify_all();
    counters_.since = now();
    ++counters_.failovers;
    try {
      delegate_.stop(reason());
    } catch (const std::exception& error) {  // no memory: nobody would be warned
      fail(reasonOf(error));
      return;
    }
    sending_.begin([this] { return ring_.send(kWarnings, &cause_, sizeof cause_); });
    lock.lock();
    state_ = state_ == State::kSuspended ? State::kWarned : state_;
    changed_.notify_all();
  }

  Warning warningOf(const std::string& why) const noexcept {
    Warning warning;
    warning.rank = rank_;
    why.copy(warning.why, sizeof warning.why - 1);
    return warning;
  }

  void warnLast(const std::string& why) noexcept {
    auto warning = warningOf(why);
    warning.last = 1;
    PendingTransfer message;
    try {
      message.begin([&] { return ring_.send(kWarnings, &warning, sizeof warning); });
      message.wait(kPassedOn);
    } catch (const std::exception&) {  // the ranks behind the next one miss it themselves
    }
  }

  /// Called with the mutex held. Waits until a failure has been recovered from. The rank before
  /// this one has `limit_` to warn it; else it is gone.
  void awaitRing(std::unique_lock<std::mutex>& lock) {
    const bool inTime = changed_.wait_for(lock, limit_, [this] { return !isSuspended() || news_; });
    if (!inTime && missed_.empty()) {
      missed_ = text("nothing came from it within ", limit_.count(), " ms");
      changed_.notify_all();
    }
    changed_.wait(lock, [this] { return !isSuspended(); });
  }

  void receive() {
    receiving_.begin([this] { return ring_.receive(kWarnings, &incoming_, sizeof incoming_); });
  }

  /// Receives the warnings of the rank before this one, whatever this one does.
  void listen() {
    try {
      while (receiving_.wait()) {
        const auto warning = incoming_;
        receive();
        if (warning.last != 0) {
          if (fail(wordsOf(warning.why)) == State::kRunning) {
            delegate_.stop(wordsOf(warning.why));
          }
          continue;
        }
        std::unique_lock<std::mutex> lock(mutex_);
        news_ = warning;
        lock.unlock();
        changed_.notify_all();
        suspend(warning);
      }
    } catch (const std::exception& error) {
      // That rank is gone. It may have ended after its last job, so this alone is no failure.
      collectives_.lose();
      auto missed = reasonOf(error);
      const std::lock_guard<std::mutex> lock(mutex_);
      missed_ = std::move(missed);
      changed_.notify_all();
    }
  }

  /// Recovers each time that this rank has warned the next one, and was warned.
  void watch() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] {
        return isFinished() || (state_ == State::kWarned && (news_ || !missed_.empty()));
      });
      if (isFinished()) {
        // Gloo's thread spins on the rest of a message that was aborted.
        if (!changed_.wait_for(lock, kPassedOn, [this] { return state_ == State::kLeft; }) &&
            ring_.close) {
          lock.unlock();
          ring_.close();
        }
        return;
      }
      const auto missed = std::exchange(missed_, {});
      const bool warned = news_.has_value();
      lock.unlock();
      if (warned) {
        recover();
      } else {
        fail(textOrNone([&] { return goneText(collectives_.before(), missed); }));
      }
      lock.lock();
    }
  }

  void recover() noexcept {
    try {
      // A rank that misses a warning says so before others miss that rank.
      const auto finished = collectives_.gather(finished_, limit_ + kPassedOn);
      const auto most = std::max_element(finished.begin(), finished.end());
      auto received = share(*std::min_element(finished.begin(), finished.end()), *most,
                            static_cast<std::size_t>(most - finished.begin()));
      std::unique_lock<std::mutex> lock(mutex_);
      if (state_ != State::kWarned) {
        return;
      }
      state_ = State::kRing;
      news_.reset();
      next_ = *most;
      received_ = std::move(received);
      ++failures_;
      calls_ = 0;
      for (auto job = next_; job < admitted_; ++job) {
        calls_ += slotOf(job).begins ? 1 : 0;
      }
      slots_ = {};
      lock.unlock();
      changed_.notify_all();
      if (rank_ == 0) {
        quietly([this] {
          delegate_.say(text("warning: ", reason(), "; allreduce goes over Gloo from here on"));
        });
      }
    } catch (const std::exception& error) {
      fail(reasonOf(error));
    }
  }

  /// Called with the mutex held, where all ranks have the sums of all jobs before `job`, and have
  /// submitted none after it.
  void tryToReturn(std::uint64_t job, std::unique_lock<std::mutex>& lock) {
    const auto call = calls_;
    lock.unlock();
    try {
      Answer objection;
      const auto rank = agree(objection);
      std::string line;
      if (objection.why[0] != '\0') {
        delegate_.stop(reason());
        line = text("warning: call ", call, " after the failure: rank ", rank, ": ",
                    wordsOf(objection.why), "; ", kStaysWithGloo,
                    tries_ ? text(", and SwitchML is tried again at call ", 2 * call) : "");
      } else if (resume(job)) {
        line = text("allreduce returns to SwitchML at call ", call, " after the failure");
      }
      if (rank_ == 0 && !line.empty()) {
        delegate_.say(line);
      }
    } catch (const std::exception& error) {
      fail(reasonOf(error));
    }
    lock.lock();
  }

  /// Takes the steps with all other ranks, up to the first one that fails somewhere. Returns the
  /// first rank there, if there is one.
  std::size_t agree(Answer& objection) {
    std::random_device device;
    std::uint64_t seed = std::uint64_t{device()} << 32U | (device() & UINT32_MAX);
    for (const auto& step : delegate_.steps) {
      Obstacle obstacle;
      try {
        obstacle = step(seed);
      } catch (const std::exception& error) {
        obstacle.why = text("SwitchML cannot be started: ", error.what());
      }
      Answer own;
      own.seed = seed;
      own.stays = obstacle.stays ? 1 : 0;
      obstacle.why.copy(own.why, sizeof own.why - 1);
      const auto all = collectives_.gather(own, limit_);
      seed = all[0].seed;
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        if (all[rank].why[0] != '\0') {
          objection = all[rank];
          tries_ =
              std::none_of(all.begin(), all.end(), [](const Answer& one) { return one.stays; });
          return rank;
        }
      }
    }
    return 0;
  }

  /// All ranks use their contexts again. False where the group was closed meanwhile.
  bool resume(std::uint64_t job) {
    delegate_.resume();
    std::unique_lock<std::mutex> lock(mutex_);
    if (state_ != State::kRing) {
      return false;
    }
    counters_.end();
    ++counters_.returns;
    admitted_ = finished_ = job;
    state_ = State::kRunning;
    // The rank before this one may have returned, and failed again, already.
    const auto news = news_;
    lock.unlock();
    changed_.notify_all();
    if (news) {
      suspend(*news);
    }
    return true;
  }

  std::string reason() const { return text("rank ", cause_.rank, ": ", wordsOf(cause_.why)); }

  /// Sums of the jobs from `low` to before `high`, which `root` has finished, as far as this rank
  /// lacks them.
  std::map<std::uint64_t, std::vector<char>> share(std::uint64_t low, std::uint64_t high,
                                                   std::size_t root) {
    std::map<std::uint64_t, std::vector<char>> received;
    for (auto job = low; job < high; ++job) {
      const auto& slot = slotOf(job);
      const auto* const own = reinterpret_cast<const char*>(slot.memory.get());
      std::vector<char> sum(slot.bytes);
      if (job < finished_) {
        std::copy(own, own + slot.bytes, sum.begin());
      }
      collectives_.broadcast(root, sum.data(), sum.size(), limit_);
      if (job >= finished_) {
        received.emplace(job, std::move(sum));
      } else if (!std::equal(sum.begin(), sum.end(), own)) {
        throw std::runtime_error("SwitchML has given them different sums");
      }
    }
    return received;
  }

  const std::int32_t rank_;
  const Milliseconds limit_;
  const Delegate delegate_;
  Counters& counters_;
  Ring ring_;
  RingCollectives collectives_;
  const std::uint64_t callsBefore_;
  const double secondsBefore_;

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kRunning;
  std::optional<Warning> news_;  // of the rank before, from which this has yet to recover
  std::string missed_;           // why no more come
  std::string why_;
  std::array<Slot, kWindow + kResults> slots_;
  std::uint64_t admitted_ = 0;
  std::uint64_t finished_ = 0;
  std::uint64_t next_ = 0;      // job of the ring
  std::uint64_t failures_ = 0;  // after which the ring was used
  std::uint64_t calls_ = 0;     // since the newest of them
  bool tries_ = true;           // to return
  std::map<std::uint64_t, std::vector<char>> received_;

  Warning incoming_;
  Warning cause_;
  PendingTransfer receiving_;
  PendingTransfer sending_;
  std::vector<std::thread> threads_;
};

}  // namespace switchml_delegate
