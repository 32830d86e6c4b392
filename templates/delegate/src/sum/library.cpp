#include "sum/library.hpp"

#include <tuple>

#include "base/quietly.hpp"
#include "join/config.hpp"

namespace switchml {
// Of the simulator, and of a library with the fix `start-waits`.
extern std::atomic<long long> start_limit __attribute__((weak));
}  // namespace switchml

namespace switchml_delegate {
namespace {

switchml::Context& context() { return switchml::Context::GetInstance(); }

void stopContext(bool idle) {
  if (context().GetContextState() != switchml::Context::RUNNING) {
    return;
  }
  if (idle) {
    // The library's stop hangs or aborts when it meets a worker thread between the end of a job and
    // its wait for the next one.
    context().WaitForAllJobs();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  context().Stop();
}

/// The counters of the simulator, and of the real library with the fix `counts`.
template <typename Stats>
auto packetsOf(const Stats& stats, int /*preferred*/)
    -> decltype(static_cast<void>(stats.TotalPktsSent()), Packets()) {
  std::uint64_t timeouts = 0;
#if defined(TIMEOUTS) || defined(SWITCHML_SIMULATOR)
  timeouts = stats.Timeouts();
#endif
  return {true, stats.TotalPktsSent(), stats.CorrectPktsReceived(), stats.WrongPktsReceived(),
          timeouts};
}

template <typename Stats>
Packets packetsOf(const Stats& /*stats*/, long /*otherwise*/) {
  return {};
}

/// Calls `end` when the job has ended. The simulator, and the real library with the fix `job-end`,
/// do that in the thread that ends the job.
template <typename Job>
auto callAtEnd(const std::shared_ptr<Job>& job, std::function<void()> end, int /*preferred*/)
    -> decltype(job->CallAtEnd(end)) {
  job->CallAtEnd(std::move(end));
}

template <typename Job>
void callAtEnd(const std::shared_ptr<Job>& job, std::function<void()> end, long /*otherwise*/) {
  std::thread([job, end = std::move(end)] {
    job->WaitToComplete();
    end();
  }).detach();
}

}  // namespace

struct Library::Job {
  std::shared_ptr<Jobs> jobs;
  std::array<std::shared_ptr<void>, 2> memory;
  std::shared_ptr<switchml::Job> given{};
  JobPtr next{};
  Clock::time_point turn = Clock::time_point::max();
  bool ended = false;
};

/// Jobs of one start of the context, in the order in which they were submitted.
class Library::Jobs {
 public:
  explicit Jobs(std::uint64_t number) : epoch(number) {}

  const std::uint64_t epoch;
  /// Number of jobs that have not finished.
  std::atomic<std::uint64_t> unfinished{0};

  void add(const JobPtr& job) noexcept {
    ++unfinished;
    const std::lock_guard<std::mutex> lock(mutex_);
    job->turn = first_ ? job->turn : Clock::now();
    (first_ ? last_->next : first_) = job;
    last_ = job.get();
  }

  /// Called once for each job. Threads that end jobs may come in another order.
  void end(Job& job) noexcept {
    unfinished -= job.given && job.given->GetJobStatus() == switchml::FINISHED ? 1 : 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto now = Clock::now();
      job.ended = true;
      job.turn = std::min(job.turn, now);
      while (first_ && first_->ended) {
        first_ = std::move(first_->next);
      }
      if (first_) {
        first_->turn = std::min(first_->turn, now);
      }
    }
    changed_.notify_all();
  }

  Clock::time_point turn(const Job& job) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return job.turn != Clock::time_point::max() || givenUp_; });
    return std::min(job.turn, Clock::now());
  }

  End wait(const Job& job, Clock::time_point deadline, const std::function<bool()>& isLost) {
    constexpr auto kLook = std::chrono::seconds(1);
    const auto isOver = [&] { return job.ended || givenUp_; };
    std::unique_lock<std::mutex> lock(mutex_);
    for (auto now = Clock::now();
         !changed_.wait_until(lock, std::min(deadline, now + kLook), isOver);) {
      now = Clock::now();
      if (now >= deadline || isLost()) {
        break;
      }
    }
    const auto status = !job.ended  ? switchml::RUNNING
                        : job.given ? job.given->GetJobStatus()
                                    : switchml::FAILED;
    return status == switchml::FINISHED ? End::kFinished
           : status == switchml::FAILED ? End::kFailed
                                        : End::kNone;
  }

  /// Nobody waits any more.
  void giveUp() noexcept {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      givenUp_ = true;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;  // a job's turn has come, or it has ended
  JobPtr first_;                     // of those that have not ended
  Job* last_ = nullptr;              // of them, if there is one
  bool givenUp_ = false;
};

Library::Clock::time_point Library::turn(const JobPtr& job) { return job->jobs->turn(*job); }

Library::End Library::wait(const JobPtr& job, Clock::time_point deadline,
                           const std::function<bool()>& isLost) {
  const auto end = job->jobs->wait(*job, deadline, isLost);
  std::array<std::shared_ptr<void>, 2> released;  // by this thread, without the lock
  if (end == End::kFinished) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto found = std::find(kept_.begin(), kept_.end(), job); found != kept_.end()) {
      kept_.erase(found);
      released.swap(job->memory);
    }
  }
  return end;
}

std::uint64_t Library::epochOf(const JobPtr& job) { return job->jobs->epoch; }

Library::Library(const Library* before)
    : state_(before != nullptr && before->state_ != State::kNotStarted ? State::kLost
                                                                       : State::kNotStarted),
      jobs_(std::make_shared<Jobs>(0)) {}

Library::State Library::state() {
  auto stopping = State::kStopping;
  if (state_ == stopping && context().GetContextState() == switchml::Context::STOPPED) {
    state_.compare_exchange_strong(stopping, State::kStopped);
  }
  return state_;
}

std::uint64_t Library::epoch() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return jobs_->epoch;
}

std::shared_ptr<const switchml::Config> Library::config() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return config_;
}

std::string Library::obstacle() { return obstacle(config()); }

std::string Library::obstacle(const std::shared_ptr<const switchml::Config>& known) {
  const auto now = state();
  if (retired_) {
    return "no context is started while the process exits";
  }
  if (now == State::kNotStarted) {
    return "";
  }
  if (!known || !startsAgain(known->general_)) {
    return "the client library starts once in a process, without its fix `restart`";
  }
  return now == State::kStopped ? "" : "the SwitchML context has not stopped";
}

std::chrono::milliseconds Library::startLimit() {
  static const auto own = [] {
    const char* const given = std::getenv("SWITCHML_START_TIMEOUT_MS");
    const auto read = given == nullptr ? 0 : std::strtoll(given, nullptr, 10);
    return std::chrono::milliseconds(read > 0 ? std::min(read, 86'400'000LL) : 30'000);
  }();
  return own;
}

std::string Library::start(const switchml::Config& config, std::chrono::milliseconds limit) {
  release();
  std::unique_lock<std::mutex> lock(mutex_);
  if (state_ == State::kRunning) {
    return "";
  }
  if (auto why = obstacle(config_); !why.empty()) {
    return why;
  }
  if (state_ == State::kNotStarted && context().GetContextState() != switchml::Context::CREATED) {
    state_ = State::kStopping;
    return "other code of this process has used the SwitchML context";
  }
  const auto jobs = std::make_shared<Jobs>(jobs_->epoch + 1);
  const auto before = std::make_pair(state_.load(), config_);
  config_ = std::make_shared<const switchml::Config>(config);
  state_ = State::kStarting;
  lock.unlock();
  if (usesSwitch(config.general_) && config.general_.backend == "rdma") {
    // Memory that is registered with the card must not part from it in a process that forks.
    setenv("RDMAV_FORK_SAFE", "1", /*overwrite=*/0);
    setenv("RDMAV_HUGEPAGES_SAFE", "1", /*overwrite=*/0);
  }
  // What is still under way when the limit has passed keeps the context from being started again.
  if (&switchml::start_limit != nullptr) {
    switchml::start_limit = std::min(startLimit(), limit).count();
  }
  std::promise<std::string> promise;
  auto answer = promise.get_future();
  try {
    std::thread([this, jobs, own = config, given = std::move(promise)]() mutable {
      run(jobs, own, given);
    }).detach();
  } catch (const std::exception& error) {
    lock.lock();
    std::tie(state_, config_) = before;
    return text("the SwitchML context was not started: ", error.what());
  }
  const bool answered = answer.wait_for(limit) == std::future_status::ready;
  std::string why;
  try {
    why = answered ? answer.get() : "";
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (answered && why.empty()) {
    return "";
  }
  lock.lock();
  if (state_ == State::kStarting) {
    state_ = State::kStopping;
    jobs_ = answered ? jobs_ : jobs;
  }
  lock.unlock();
  jobs->giveUp();
  return text("the SwitchML context did not start",
              answered ? ": " + why : text(" within ", limit.count(), " ms"));
}

void Library::run(const std::shared_ptr<Jobs>& jobs, switchml::Config& config,
                  std::promise<std::string>& answer) noexcept {
  try {
    if (!context().Start(&config)) {
      answer.set_value("see its messages");
      return;
    }
  } catch (...) {
    quietly([&answer] { answer.set_exception(std::current_exception()); });
    return;
  }
  // Whichever comes second, the start or the end of its time, ends what was started: a context that
  // starts says that it runs before it does, and one that is stopped then ends the process.
  std::shared_ptr<const switchml::Config> used;
  const bool copied =
      quietly([&used] { used = std::make_shared<const switchml::Config>(context().GetConfig()); });
  std::unique_lock<std::mutex> lock(mutex_);
  if (copied && state_ == State::kStarting) {
    config_ = used;
    state_ = State::kRunning;
    jobs_ = jobs;
    counts_ = true;
    answer.set_value("");
    stops_.wait(lock,
                [&] { return submissions_ == 0 && (jobs_ != jobs || state_ != State::kRunning); });
    if (jobs_ != jobs) {
      return;  // other code has stopped it, and a later start has taken it
    }
  } else if (!copied) {
    answer.set_value(kOutOfMemory);
  }
  lock.unlock();
  quietly([&jobs] { stopContext(/*idle=*/jobs->unfinished == 0); });
}

void Library::stop(std::uint64_t epoch) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (jobs_->epoch != epoch) {
    return;
  }
  jobs_->giveUp();
  if (state_ == State::kRunning) {
    state_ = State::kStopping;
    stops_.notify_all();
  }
}

bool Library::stoppedWithin(std::chrono::milliseconds limit, std::uint64_t epoch) {
  const auto deadline = Clock::now() + limit;
  while (this->epoch() == epoch && state() != State::kStopped) {
    if (Clock::now() >= deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

std::string Library::submit(const std::shared_ptr<void>& in, const std::shared_ptr<void>& out,
                            std::uint64_t numel, Element element, JobPtr& job) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (state_ != State::kRunning) {
    return "the SwitchML context is being stopped";
  }
  if (context().GetContextState() != switchml::Context::RUNNING) {
    return "the SwitchML context was stopped by other code of this process";
  }
  const auto type = element == Element::kFloat32 ? switchml::FLOAT32 : switchml::INT32;
  kept_.push_back(std::make_shared<Job>(Job{jobs_, {in, out}}));
  job = kept_.back();
  jobs_->add(job);
  ++submissions_;
  lock.unlock();
  const std::unique_ptr<Library, void (*)(Library*)> submission(
      this, [](Library* library) { library->endSubmission(); });
  try {
    std::function<void()> end = [job] { job->jobs->end(*job); };
    job->given = context().AllReduceAsync(in.get(), out.get(), numel, type, switchml::SUM);
    callAtEnd(job->given, std::move(end), 0);
    return "";
  } catch (const std::exception& error) {  // it may have queued the job before
    job->given = nullptr;
    jobs_->end(*job);
    return error.what();
  }
}

void Library::endSubmission() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  --submissions_;
  stops_.notify_all();
}

void Library::release() noexcept {
  std::vector<JobPtr> released;
  std::unique_lock<std::mutex> lock(mutex_);
  if (state() == State::kStopped) {
    released.swap(kept_);
  }
  lock.unlock();
  for (const auto& job : released) {
    job->memory = {};  // by this thread: the one that waits for jobs may have it for a moment more
  }
}

Packets Library::packets() const {
  return counts_ ? packetsOf(context().GetStats(), 0) : packetsOf(switchml::Stats(), 0);
}

}  // namespace switchml_delegate
