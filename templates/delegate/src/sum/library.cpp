#include "sum/library.hpp"

#include <cstdlib>
#include <thread>
#include <tuple>

#include "base/quietly.hpp"
#include "base/text.hpp"
#include "base/thread.hpp"
#include "join/config.hpp"

namespace switchml {
// Defined by the simulator and by a library with the fix `start-waits`.
extern std::atomic<long long> start_limit __attribute__((weak));
}  // namespace switchml

namespace switchml_delegate {
namespace {

constexpr const char* kExits = "no context is started while the process exits";
constexpr const char* kNotStopped = "the SwitchML context has not stopped";

switchml::Context& context() { return switchml::Context::GetInstance(); }

void stopContext(bool idle) {
  if (context().GetContextState() != switchml::Context::RUNNING) {
    return;
  }
  if (idle) {
    // The client library's stop hangs or aborts if a worker thread is between the end of a job and
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

/// Calls `end` when the job has ended: in the client library's thread that ends the job, with the
/// simulator and with the fix `job-end`.
template <typename Job>
auto callAtEnd(const std::shared_ptr<Job>& job, std::function<void()> end, int /*preferred*/)
    -> decltype(job->CallAtEnd(end)) {
  job->CallAtEnd(std::move(end));
}

/// The same without that fix, in a thread for each job. The thread ends with its job, or with the
/// process: the client library's wait for a job has no limit, so nobody waits for the thread.
template <typename Job>
void callAtEnd(const std::shared_ptr<Job>& job, std::function<void()> end, long /*otherwise*/) {
  startThread("swml-job-end", [job, end = std::move(end)] {
    job->WaitToComplete();
    end();
  }).detach();
}

}  // namespace

struct Library::Job {
  const std::shared_ptr<Jobs> jobs;
  std::uint64_t number = 0;
  std::shared_ptr<switchml::Job> given{};  // null if the client library did not take it
};

Library::Clock::time_point Library::turn(const JobPtr& job) { return job->jobs->turn(job->number); }

Library::End Library::wait(const JobPtr& job, Clock::time_point deadline,
                           const std::function<bool()>& isLost) {
  return job->jobs->wait(job->number, deadline, isLost);
}

std::uint64_t Library::epochOf(const JobPtr& job) { return job->jobs->epoch; }

Library::Library(const Library* parent)
    : state_(parent != nullptr && parent->state_ != State::kNotStarted ? State::kLost
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
  const MutexLock lock(mutex_);
  return jobs_->epoch;
}

std::shared_ptr<const switchml::Config> Library::config() {
  const MutexLock lock(mutex_);
  return config_;
}

std::string Library::refusal() { return refusalOf(config()); }

std::string Library::refusalOf(const std::shared_ptr<const switchml::Config>& known) {
  const auto now = state();
  if (retired_) {
    return kExits;
  }
  if (now == State::kNotStarted) {
    return "";
  }
  if (!known || !startsAgain(known->general_)) {
    return "the client library starts once in a process, without its fix `restart`";
  }
  return now == State::kStopped ? "" : kNotStopped;
}

std::chrono::milliseconds Library::startLimit() {
  static const auto own = [] {
    const char* const given = std::getenv("SWITCHML_START_TIMEOUT_MS");
    const auto read = given == nullptr ? 0 : std::strtoll(given, nullptr, 10);
    return std::chrono::milliseconds(read > 0 ? std::min(read, 86'400'000LL) : 30'000);
  }();
  return own;
}

void Library::makeStatics() { context(); }

std::string Library::start(const switchml::Config& config, std::chrono::milliseconds limit) {
  release();
  std::promise<std::string> promise;
  auto answer = promise.get_future();
  MutexLock lock(mutex_);
  if (state_ == State::kRunning) {
    return "";
  }
  // The thread of the earlier start would stop this one if it still runs, as it may if other code
  // has stopped its context.
  const bool ended = state() != State::kStopped ||
                     stops_.wait_for(lock, limit, [this]() REQUIRES(mutex_) { return runs_ == 0; });
  if (auto reason = refusalOf(config_); !reason.empty() || !ended) {
    return ended ? reason : kNotStopped;
  }
  if (state_ == State::kNotStarted && context().GetContextState() != switchml::Context::CREATED) {
    state_ = State::kStopping;
    return "other code of this process has used the SwitchML context";
  }
  const auto jobs = std::make_shared<Jobs>(jobs_->epoch + 1);
  const auto stopped = jobs_;
  const auto before = std::make_pair(state_.load(), config_);
  config_ = std::make_shared<const switchml::Config>(config);
  state_ = State::kStarting;
  ++runs_;
  lock.unlock();
  stopped->release();
  if (usesSwitch(config.general_) && config.general_.backend == "rdma") {
    // A fork must not give the process other pages than those that are registered with the card.
    setenv("RDMAV_FORK_SAFE", "1", /*overwrite=*/0);
    setenv("RDMAV_HUGEPAGES_SAFE", "1", /*overwrite=*/0);
  }
  // A start that goes on beyond the limit would keep the context from being started again.
  if (&switchml::start_limit != nullptr) {
    switchml::start_limit = std::min(startLimit(), limit).count();
  }
  try {
    // The thread ends when the context has stopped. It is not joined, because a library that hangs
    // keeps it: start() waits for it within `limit`, and stoppedWithin() within its own.
    startThread("swml-context", [this, jobs, own = config, given = std::move(promise)]() mutable {
      run(jobs, own, given);
      endRun();
    }).detach();
  } catch (const std::exception& error) {
    endRun();
    lock.lock();
    std::tie(state_, config_) = before;
    return text("the SwitchML context was not started: ", error.what());
  }
  const bool answered = answer.wait_for(limit) == std::future_status::ready;
  std::string reason;
  try {
    reason = answered ? answer.get() : "";
  } catch (const std::exception& error) {
    reason = error.what();
  }
  if (answered && reason.empty()) {
    return "";
  }
  lock.lock();
  if (state_ == State::kStarting) {
    state_ = State::kStopping;
    jobs_ = answered ? jobs_ : jobs;
  }
  lock.unlock();
  jobs->abort();
  return text("the SwitchML context did not start",
              answered ? ": " + reason : text(" within ", limit.count(), " ms"));
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
  // If the start finishes after its limit, stop the context again. No other thread can: a context
  // says that it runs before its start has returned, and to stop it then would end the process.
  std::shared_ptr<const switchml::Config> used;
  const bool copied =
      quietly([&used] { used = std::make_shared<const switchml::Config>(context().GetConfig()); });
  MutexLock lock(mutex_);
  if (copied && state_ == State::kStarting) {
    config_ = used;
    state_ = retired_ ? State::kStopping : State::kRunning;
    jobs_ = jobs;
    everStarted_ = true;
    quietly([&] { answer.set_value(retired_ ? kExits : ""); });
    stops_.wait(
        lock, [this]() REQUIRES(mutex_) { return submissions_ == 0 && state_ != State::kRunning; });
  } else if (!copied) {
    answer.set_value(kOutOfMemory);
  }
  lock.unlock();
  quietly([&jobs] { stopContext(jobs->idle()); });
}

void Library::endRun() noexcept {
  const MutexLock lock(mutex_);
  --runs_;
  stops_.notify_all();
}

void Library::beginStop() noexcept {
  jobs_->abort();
  if (state_ == State::kRunning) {
    state_ = State::kStopping;
    stops_.notify_all();
  }
}

void Library::stop(std::uint64_t epoch) noexcept {
  const MutexLock lock(mutex_);
  if (jobs_->epoch == epoch) {
    beginStop();
  }
}

bool Library::retire(std::chrono::milliseconds limit) noexcept {
  MutexLock lock(mutex_);
  retired_ = true;
  beginStop();
  return stops_.wait_for(lock, limit, [this]() REQUIRES(mutex_) { return runs_ == 0; });
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

/// Ends a submission, which submit() has counted, when it returns or throws.
class Library::Submission {
 public:
  explicit Submission(Library& library) : library_(library) {}
  ~Submission() { library_.endSubmission(); }
  Submission(const Submission&) = delete;
  Submission& operator=(const Submission&) = delete;

 private:
  Library& library_;
};

std::string Library::submit(const std::shared_ptr<void>& in, const std::shared_ptr<void>& out,
                            std::uint64_t numel, Element element, JobPtr& job) {
  MutexLock lock(mutex_);
  if (state_ != State::kRunning) {
    return "the SwitchML context is being stopped";
  }
  if (context().GetContextState() != switchml::Context::RUNNING) {
    return "the SwitchML context was stopped by other code of this process";
  }
  const auto made = std::make_shared<Job>(Job{jobs_});
  made->number = jobs_->add({in, out});
  job = made;
  ++submissions_;
  lock.unlock();
  const Submission submission(*this);
  try {
    std::function<void()> end = [job] {
      const bool finished = job->given && job->given->GetJobStatus() == switchml::FINISHED;
      job->jobs->end(job->number, finished ? End::kFinished : End::kFailed);
    };
    const auto type = element == Element::kFloat32 ? switchml::FLOAT32 : switchml::INT32;
    job->given = context().AllReduceAsync(in.get(), out.get(), numel, type, switchml::SUM);
    callAtEnd(job->given, std::move(end), 0);
    return "";
  } catch (const std::exception& error) {  // the client library may have queued the job before
    job->given = nullptr;
    job->jobs->end(job->number, End::kFailed);
    return error.what();
  }
}

void Library::endSubmission() noexcept {
  const MutexLock lock(mutex_);
  --submissions_;
  stops_.notify_all();
}

void Library::release() noexcept {
  std::shared_ptr<Jobs> stopped;
  {
    const MutexLock lock(mutex_);
    stopped = state() == State::kStopped ? jobs_ : nullptr;
  }
  if (stopped) {
    stopped->release();
  }
}

Packets Library::packets() const {
  return everStarted_ ? packetsOf(context().GetStats(), 0) : packetsOf(switchml::Stats(), 0);
}

}  // namespace switchml_delegate
