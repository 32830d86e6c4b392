/// The SwitchML context of this process: nothing else uses switchml::Context.
///
/// Jobs are given to it only while it runs, and it is started only when it was not yet, or has
/// stopped. Memory of callers that the library may still use is let go only then. Each start has a
/// number, its epoch: what is for an earlier one, such as a stop that comes late, does nothing.
#pragma once

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>

#include "SwitchMLInterface.hpp"
#include "base/text.hpp"

namespace switchml {
class Config;
}

namespace switchml_delegate {

/// Packets that the library has counted, where it can tell.
struct Packets {
  bool known = false;  // false: the library has no such counters
  std::uint64_t sent = 0;
  std::uint64_t answers = 0;
  std::uint64_t wrong = 0;  // what came and was no answer
  std::uint64_t timeouts = 0;

  /// Words for a message; none where nothing is known.
  std::string words() const {
    return known ? text("packets: ", sent, " sent, ", answers, " answered, ", wrong, " wrong, ",
                        timeouts, timeouts == 1 ? " timeout" : " timeouts")
                 : "";
  }

  std::string json() const {
    return known ? text("{\"sent\": ", sent, ", \"answers\": ", answers, ", \"wrong\": ", wrong,
                        ", \"timeouts\": ", timeouts, "}")
                 : "null";
  }
};

class Library {
 public:
  /// kLost: it is that of the process which this one was forked from, whose threads are not here.
  enum class State : std::uint8_t { kNotStarted, kStarting, kRunning, kStopping, kStopped, kLost };

  using Clock = std::chrono::steady_clock;
  enum class End : std::uint8_t { kFinished, kFailed, kNone };

  class Jobs;
  /// A job that the library was given.
  struct Job;
  using JobPtr = std::shared_ptr<Job>;

  /// `before`: that of the process which this one was forked from, if there is one.
  explicit Library(const Library* before);

  State state();
  bool lost() const noexcept { return state_ == State::kLost; }

  /// Number of the newest start; 0 where there was none.
  std::uint64_t epoch();

  /// The configuration of the newest start; null where there was none.
  std::shared_ptr<const switchml::Config> config();

  /// Why it cannot be started; empty where it can.
  std::string obstacle();

  /// How long a fixed library takes to start at most.
  static std::chrono::milliseconds startLimit();

  /// Starts it unless it runs. Returns why it does not run when the limit has passed; if it starts
  /// later than that, it is stopped.
  std::string start(const switchml::Config& config, std::chrono::milliseconds limit);

  /// Nothing is submitted from here on, and nobody waits for a job. A job that is still in the
  /// library must neither read nor write the caller's tensor any more, since another rank that
  /// comes late would take what it finds there for this rank's values.
  void stop(std::uint64_t epoch) noexcept;

  /// It is not started any more from here on: the process exits.
  void retire() noexcept { retired_ = true; }

  /// False where what was started then has not stopped when the limit has passed.
  bool stoppedWithin(std::chrono::milliseconds limit, std::uint64_t epoch);

  /// Gives it a job, without a lock: the sum of so many words, which may take their place. Keeps
  /// the memory until the job has finished, or the context has stopped. Returns why it does not
  /// take the job; it may have it all the same where `job` is set.
  std::string submit(const std::shared_ptr<void>& in, const std::shared_ptr<void>& out,
                     std::uint64_t numel, Element element, JobPtr& job);

  /// The time at which all jobs before it had ended; waits for that. Now where all are given up.
  static Clock::time_point turn(const JobPtr& job);

  /// How a job has ended. It has not at the deadline, when all are given up, or when `isLost`,
  /// which is called each second, says that it cannot end.
  End wait(const JobPtr& job, Clock::time_point deadline, const std::function<bool()>& isLost);

  /// Number of the start that it is of.
  static std::uint64_t epochOf(const JobPtr& job);

  /// Lets go of the memory of all jobs, if it has stopped.
  void release() noexcept;

  /// Packets of this process; none before it has started.
  Packets packets() const;

 private:
  std::string obstacle(const std::shared_ptr<const switchml::Config>& known);
  void endSubmission() noexcept;

  /// Starts the context in a thread of its own, which stops it later: no other thread has to be had
  /// then. The answer is why it did not start.
  void run(const std::shared_ptr<Jobs>& jobs, switchml::Config& config,
           std::promise<std::string>& answer) noexcept;

  std::mutex mutex_;
  std::atomic<State> state_;
  std::atomic<bool> counts_{false};  // it was started once
  std::atomic<bool> retired_{false};
  std::shared_ptr<Jobs> jobs_;  // since the newest start
  std::shared_ptr<const switchml::Config> config_;
  std::condition_variable stops_;  // it has to stop, or a submission has ended
  unsigned submissions_ = 0;       // under way
  // A list has another layout in each ABI of the C++ library, and the linker would mix its
  // functions with those of torch's.
  std::vector<JobPtr> kept_;  // that have not finished
};

}  // namespace switchml_delegate
