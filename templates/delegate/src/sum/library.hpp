/// The SwitchML context of this process. Nothing else uses switchml::Context.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "SwitchMLInterface.hpp"
#include "base/mutex.hpp"
#include "sum/jobs.hpp"
#include "sum/packets.hpp"

namespace switchml {
class Config;
}

namespace switchml_delegate {

/// Starts and stops the context of the client library, and submits jobs to it.
///
///     kNotStarted ──▶ kStarting ──▶ kRunning ──▶ kStopping ──▶ kStopped ──▶ kStarting
///          │              └──────────────────────────▲
///          └─────────────────────────────────────────┘  other code has used the context
///     kLost: the process was forked from the one that started the context.
///
///   1. start() has a thread of its own start the context; each start has a number, its epoch.
///   2. submit() gives jobs to a context that runs.
///   3. stop() aborts all waits for jobs, and wakes that thread, which stops the context. A stop
///      for an earlier epoch does nothing. A start that exceeds its limit, or during which the
///      process exits, is stopped as well: by that thread, as soon as the context runs.
///   4. When the context has stopped, release() releases the memory of all jobs, and the context
///      may start again.
///   5. retire() stops the context for good when the process exits.
///
/// Any thread may call any function. One group at a time starts it: the one with the reservation.
class Library {
 public:
  enum class State : std::uint8_t { kNotStarted, kStarting, kRunning, kStopping, kStopped, kLost };

  using Clock = Jobs::Clock;
  using End = Jobs::End;

  /// A job that was submitted.
  struct Job;
  using JobPtr = std::shared_ptr<Job>;

  /// `parent`: the Library of the process from which this one was forked, or null.
  explicit Library(const Library* parent);

  State state();
  bool lost() const noexcept { return state_ == State::kLost; }

  /// Number of the newest start that ran or timed out; 0 if there was none.
  std::uint64_t epoch() EXCLUDES(mutex_);

  /// Configuration of the newest start; null if there was none.
  std::shared_ptr<const switchml::Config> config() EXCLUDES(mutex_);

  /// Reason why the context cannot be started; empty if it can.
  std::string refusal() EXCLUDES(mutex_);

  /// Maximum duration of a start, which the fix `start-waits` enforces (SWITCHML_START_TIMEOUT_MS).
  static std::chrono::milliseconds startLimit();

  /// Makes the static objects of the client library, which exit() destroys only after it has called
  /// what is registered later.
  static void makeStatics();

  /// Starts the context unless it runs. Returns the reason if it does not run when the limit has
  /// passed; a context that starts later is stopped.
  std::string start(const switchml::Config& config, std::chrono::milliseconds limit)
      EXCLUDES(mutex_);

  /// Begins to stop the context, without waiting: no job is submitted, and waits for jobs end. The
  /// client library may use the memory of its jobs until stoppedWithin() returns true.
  void stop(std::uint64_t epoch) noexcept EXCLUDES(mutex_);

  /// Called when the process exits, after all calls have failed: stops the context, also one that
  /// is being started, and lets none start any more. Returns false if the limit passes before the
  /// context has stopped.
  bool retire(std::chrono::milliseconds limit) noexcept EXCLUDES(mutex_);

  /// Waits until the context of this start has stopped. Returns false if the limit passes before.
  bool stoppedWithin(std::chrono::milliseconds limit, std::uint64_t epoch) EXCLUDES(mutex_);

  /// Submits a job: the sum of `numel` words at `in`, written to `out`, which may be the same.
  /// Keeps the memory until the job has finished, or the context has stopped. Returns the reason if
  /// the job was not submitted. If `job` is set then, the client library may have it all the same.
  std::string submit(const std::shared_ptr<void>& in, const std::shared_ptr<void>& out,
                     std::uint64_t numel, Element element, JobPtr& job) EXCLUDES(mutex_);

  /// Called by the thread of the call that has submitted the job; see Jobs.
  static Clock::time_point turn(const JobPtr& job);
  static End wait(const JobPtr& job, Clock::time_point deadline,
                  const std::function<bool()>& isLost);

  /// Number of the start during which the job was submitted.
  static std::uint64_t epochOf(const JobPtr& job);

  /// Releases the memory of all jobs if the context has stopped. Called by a call that has failed,
  /// and before the next start.
  void release() noexcept EXCLUDES(mutex_);

  /// Packets of this process; unknown before the first start.
  Packets packets() const;

 private:
  class Submission;

  std::string refusalOf(const std::shared_ptr<const switchml::Config>& known);
  void beginStop() noexcept REQUIRES(mutex_);
  void endSubmission() noexcept EXCLUDES(mutex_);

  /// Runs in the context's thread: starts the context, answers with the reason if it did not start,
  /// waits for stop() and stops the context. So a stop needs no new thread.
  void run(const std::shared_ptr<Jobs>& jobs, switchml::Config& config,
           std::promise<std::string>& answer) noexcept EXCLUDES(mutex_);
  void endRun() noexcept EXCLUDES(mutex_);

  // Written with the mutex held, except from kStopping to kStopped, which is a compare-exchange;
  // read without it.
  std::atomic<State> state_;
  std::atomic<bool> everStarted_{false};  // the context was started once
  std::atomic<bool> retired_{false};      // the process exits
  Mutex mutex_;
  Condition stops_;  // of run(), which waits for its stop, and for those that wait for its end
  std::shared_ptr<Jobs> jobs_ GUARDED_BY(mutex_);  // of the newest start
  std::shared_ptr<const switchml::Config> config_ GUARDED_BY(mutex_);
  unsigned submissions_ GUARDED_BY(mutex_) = 0;  // that are under way
  unsigned runs_ GUARDED_BY(mutex_) = 0;         // threads in run()
};

}  // namespace switchml_delegate
