/// Failover of a group: if its context fails, its ranks sum over Gloo, and later use it again.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "SwitchMLInterface.hpp"
#include "base/mutex.hpp"
#include "recover/counters.hpp"
#include "recover/messages.hpp"
#include "recover/resume.hpp"
#include "recover/ring.hpp"
#include "recover/transfer.hpp"

namespace switchml_delegate {

/// Failover of one rank. The jobs of a group have numbers 0, 1, 2, ... on all ranks alike.
///
/// While the context runs:
///   1. admit() gives a job memory for its sum. The client library reads the caller's memory and
///      writes to this memory. So the caller's memory has the input until the job is finished.
///   2. copyOut() copies the sum to the caller, and the job is finished. Jobs finish in their
///      order.
///   3. Job j is admitted when job j - kWindow is finished. The library completes a job when all
///      ranks have submitted it. So a rank is at most kWindow finished jobs ahead of another rank.
///      Each rank keeps the sums of the kResults jobs that it finished last.
///
/// After a failure:
///   1. The ranks form a ring. A rank whose context fails, or that its predecessor warns, stops its
///      context and warns its successor. It takes no more sums from the library, which may read the
///      inputs until the context has stopped. A thread receives the warnings, so a rank without
///      jobs is warned at once, and no rank waits for the next call of another rank.
///   2. A rank that has warned its successor and was warned exchanges with all ranks how many jobs
///      they have finished. A rank that has finished the most sends its sums of those jobs to all.
///      So a sum that one rank has returned is the sum that all ranks return.
///   3. The ranks sum the other jobs over the ring, in the order of their numbers.
///
/// If a rank does not answer, or its calls have failed for good, all ranks throw. A rank that
/// aborts sends a final warning; every rank forwards it before it throws.
///
/// How the ranks use the context again:
///   1. Calls are counted from the first call all of whose jobs are summed over the ring, so a call
///      has the same number on all ranks.
///   2. A resume attempt comes before the first job of calls 64, 128, 256, ... It begins when all
///      earlier jobs are finished, and no later job is submitted meanwhile. So all ranks attempt it
///      at the same job.
///   3. The ranks take the steps of takeResumeSteps(): the context has stopped; it starts anew; the
///      sum of a pattern is right.
///   4. If all ranks complete all steps, they use the library again, from this job on. If a rank
///      refuses, all ranks sum over the ring until the next attempt.
///
///     kRunning ──▶ kSuspended ──▶ kWarned ──▶ kRing ──▶ kRunning
///         └────────────┴─────────────┴──────────┴──▶ kClosing ──▶ kClosed
///                                                        │           │
///                                                        ▼           ▼
///                                                    kLeaving ──▶  kLeft
///
/// tests/support/failover_model.py, return_model.py and warning_model.py search all states of two
/// and three ranks.
///
/// One thread at a time calls admit(), in the order of the jobs. Any thread calls the other
/// functions. leave() is the last call that begins: calls in progress end, most of them by an
/// exception. The callbacks, and Gloo, are called without the mutex.
class Failover {
 public:
  using Memory = std::shared_ptr<std::uint64_t[]>;
  using Milliseconds = std::chrono::milliseconds;

  /// Maximum number of jobs that are admitted and not finished.
  static constexpr std::uint64_t kWindow = 2;
  /// Number of finished jobs whose sums are kept.
  static constexpr std::uint64_t kResults = kWindow;

  struct Callbacks {
    /// Stops the context. Sums that the client library completes later are not used.
    std::function<void(const std::string& reason)> stop;
    /// Copies bytes that do not overlap.
    std::function<void(void* to, const void* from, std::size_t bytes)> copy;
    /// Prints a line, on rank 0 only.
    std::function<void(const std::string& line)> say;
    /// Steps of a resume attempt. The first step leaves the context stopped.
    std::vector<ResumeStep> resumeSteps{};
    /// Called when all ranks have completed the steps, before the first job.
    std::function<void()> resume{};
    /// Call of the first resume attempt: one that no rank has submitted when the context fails.
    std::uint64_t firstAttempt = 64;
  };

  /// `limit`: maximum time that another rank takes to answer.
  Failover(const Ring& ring, int rank, int size, Milliseconds limit, Callbacks callbacks,
           FailoverCounters& counters);
  ~Failover();
  Failover(const Failover&) = delete;
  Failover& operator=(const Failover&) = delete;

  /// Returns memory for the sum of a job, once fewer than kWindow jobs are admitted and not
  /// finished. The caller keeps the memory for as long as the client library may write to it.
  /// Returns null if the job is summed over the ring instead of by the client library.
  /// `beginsCall`: it is the first job of a call.
  Memory admit(std::uint64_t job, bool beginsCall, std::size_t bytes) EXCLUDES(mutex_);

  /// Copies the sum that the client library has completed to `data`, when all earlier jobs are
  /// finished. Returns false after a failure: the library's sum must not be used then.
  bool copyOut(std::uint64_t job, void* data) EXCLUDES(mutex_);

  /// Suspends the use of the context, and warns the other ranks.
  void suspend(const std::string& reason) noexcept EXCLUDES(mutex_);

  /// Replaces `data`, the input of a job whose sum was not copied out, by the sum. Throws
  /// std::runtime_error if there is none. `limit` is for each message. `prepare` is called before
  /// the data is summed over the ring, when no rank can use the client library's sum any more.
  void redo(std::uint64_t job, Element element, void* data, std::uint64_t numel, Milliseconds limit,
            const std::function<void()>& prepare) EXCLUDES(mutex_);

  /// Closes the failover, and warns the other ranks at once: they throw as well.
  void abort(const std::string& reason) noexcept EXCLUDES(mutex_);

  /// Closes the failover: ends all waits, sums nothing any more, and warns no rank.
  void close(const std::string& reason) noexcept EXCLUDES(mutex_);

  /// Closes the failover, waits until no thread uses the connections, and releases them.
  void leave() noexcept EXCLUDES(mutex_);

 private:
  /// kRunning: the context is used. kSuspended: it has failed. kWarned: the successor is warned.
  /// kRing: the ranks sum over the ring. From kClosing on all calls throw; in kClosed the other
  /// ranks are warned as well. kLeaving and kLeft: kClosing and kClosed after close(), when no
  /// thread waits for a message any more.
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

  /// Memory of a job that is not finished, or was finished last.
  struct Slot {
    /// kFree: of no job, or the sum has been copied to the caller. kPending: the job is admitted.
    /// kReceived: another rank has sent the sum, and redo() has not copied it to the caller yet.
    enum class Use : std::uint8_t { kFree, kPending, kReceived };

    Use use = Use::kFree;
    bool beginsCall = false;
    Memory memory;
    std::size_t capacity = 0;
    std::size_t bytes = 0;
  };
  using Slots = std::array<Slot, kWindow + kResults>;

  bool isSuspended() const REQUIRES(mutex_) {
    return state_ == State::kSuspended || state_ == State::kWarned;
  }
  bool isClosed() const REQUIRES(mutex_) { return state_ >= State::kClosing; }
  bool isFinished() const REQUIRES(mutex_) { return state_ >= State::kClosed; }
  bool isWarned() const REQUIRES(mutex_) { return warning_ || !lost_.empty(); }
  bool hasReceived() const REQUIRES(mutex_);
  static Slot& slotOf(Slots& slots, std::uint64_t job) { return slots.at(job % slots.size()); }
  bool isResumeAttempt(std::uint64_t call) const;

  // Parts of admit(). `lock` holds mutex_.

  /// Waits until the slot of the job is free, or until the context has failed and the ranks sum
  /// over the ring.
  void waitForSlot(MutexLock& lock, std::uint64_t job) REQUIRES(mutex_);

  /// Counts a call that begins after a failure. Returns true if it makes a resume attempt.
  bool countCall() REQUIRES(mutex_);

  /// Waits until all jobs before this one are finished over the ring, or the failover is closed.
  void waitForEarlierJobs(MutexLock& lock, std::uint64_t job) REQUIRES(mutex_);

  /// Gives the job its slot. `larger` replaces the memory of a slot that is too small.
  Memory fillSlot(std::uint64_t job, bool beginsCall, std::size_t bytes, Memory larger)
      REQUIRES(mutex_);

  /// Closes the failover, and returns the state before. The successor receives `finalWarning`,
  /// unless it is empty, before messages to it are ended.
  State shutDown(std::string reason, const std::string& finalWarning) noexcept EXCLUDES(mutex_);

  /// Closes the failover because the ranks cannot go on, and warns the successor.
  State fail(const std::string& reason) noexcept EXCLUDES(mutex_);

  void suspend(const Warning& warning) noexcept EXCLUDES(mutex_);
  Warning warningOf(const std::string& reason) const noexcept;
  void sendFinalWarning(const std::string& reason) noexcept;

  /// Returns when a failure has been recovered from. The predecessor has `limit_` to warn this
  /// rank; else the predecessor is gone. `lock` holds mutex_.
  void awaitRecovery(MutexLock& lock) REQUIRES(mutex_);

  void receiveWarning();

  /// Receives the warnings of the predecessor, independently of this rank's calls. Runs in the
  /// thread swml-warnings, until the failover is closed or the predecessor is gone.
  void receiveWarnings() EXCLUDES(mutex_);

  /// Recovers each time that this rank has warned its successor, and was warned. Runs in the thread
  /// swml-recovery, until the failover is closed.
  void awaitFailures() EXCLUDES(mutex_);
  void recover() noexcept EXCLUDES(mutex_);

  /// Exchanges the sums of the jobs from `low` to before `high`, which `root` has finished. Returns
  /// those that this rank lacks.
  Slots shareSums(std::uint64_t low, std::uint64_t high, std::size_t root) EXCLUDES(mutex_);

  /// Tries to use the context again from `job` on, together with all ranks.
  void attemptResume(std::uint64_t job, std::uint64_t call) EXCLUDES(mutex_);

  /// Called when all ranks use their contexts again. Returns false if the failover was closed
  /// meanwhile.
  bool resume(std::uint64_t job) EXCLUDES(mutex_);

  static std::string causeText(const Warning& cause);

  const std::int32_t rank_;
  const Milliseconds limit_;
  const Callbacks callbacks_;
  FailoverCounters& counters_;
  Ring ring_;
  RingCollectives collectives_;
  const std::uint64_t callsBefore_;  // counters of earlier groups
  const double secondsBefore_;

  Mutex mutex_;
  Condition changed_;
  State state_ GUARDED_BY(mutex_) = State::kRunning;
  std::optional<Warning> warning_ GUARDED_BY(mutex_);  // received, and not recovered from yet
  std::string lost_ GUARDED_BY(mutex_);                // why no more warnings can be received
  std::string closeReason_ GUARDED_BY(mutex_);
  bool suspending_ GUARDED_BY(mutex_) = false;  // a thread stops the context and sends the warning
  Slots slots_ GUARDED_BY(mutex_);
  std::uint64_t admitted_ GUARDED_BY(mutex_) = 0;  // number of jobs
  std::uint64_t finished_ GUARDED_BY(mutex_) = 0;  // number of jobs; constant while suspended
  std::uint64_t next_ GUARDED_BY(mutex_) = 0;      // next job of the ring
  std::uint64_t failures_ GUARDED_BY(mutex_) = 0;  // after which the ring was used
  std::uint64_t calls_ GUARDED_BY(mutex_) = 0;     // since the last of them
  bool mayResume_ GUARDED_BY(mutex_) = true;       // false: a rank would refuse each attempt

  Warning incoming_;  // Gloo writes it; only the thread swml-warnings reads it
  // Warning of the newest failure. Gloo reads it without the mutex: it is constant from kSuspended
  // on, until the state is kRunning again.
  Warning cause_ GUARDED_BY(mutex_);
  PendingTransfer receiving_;
  PendingTransfer sending_;
  std::thread warnings_;
  std::thread recovery_;
};

}  // namespace switchml_delegate
