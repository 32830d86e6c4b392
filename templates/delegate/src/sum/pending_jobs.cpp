#include "sum/pending_jobs.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/quietly.hpp"
#include "base/text.hpp"
#include "say.hpp"
#include "sum/overflow.hpp"

namespace switchml_delegate {
namespace {

using Clock = Library::Clock;

/// Minimum wait for a job when a rank is gone: answers to that rank's last packets may still
/// arrive.
constexpr std::chrono::milliseconds kLastAnswers = std::chrono::seconds(10);
constexpr auto kWord = sizeof(std::int32_t);

using Name = std::function<std::string()>;  // called for a message only, as it takes time

void debug([[maybe_unused]] const char* event, [[maybe_unused]] const Name& name) {
#ifdef SWITCHML_DELEGATE_DEBUG
  say(text("debug: ", event, name()));
#endif
}

/// The rank that is gone, as the polls of one wait find it. The thread that waits uses it.
class GoneRank {
 public:
  int rank() const { return rank_; }

  /// Notes what a poll has found. Returns true if the rank has been gone for kLastAnswers.
  bool note(int rank, Clock::time_point now) {
    answered_ = rank == rank_ ? answered_ : now + kLastAnswers;
    rank_ = rank;
    return rank_ != Heartbeat::kNobody && now >= answered_;
  }

 private:
  int rank_ = Heartbeat::kNobody;
  Clock::time_point answered_ = Clock::time_point::max();
};

/// Waits for a job of the client library. Returns the reason if it has no sum. `heartbeat` may be
/// null.
std::string waitForJob(const Library::JobPtr& job, const Name& name, Clock::time_point deadline,
                       std::chrono::milliseconds limit, Heartbeat* heartbeat) {
  GoneRank gone;
  const auto poll = [&] {
    return heartbeat != nullptr && gone.note(heartbeat->gone(), Clock::now());
  };
  const auto end = Library::wait(job, deadline, poll);
  if (end != Library::End::kNone) {
    return end == Library::End::kFinished ? "" : "SwitchML failed " + name();
  }
  poll();
  const auto who = gone.rank() == Heartbeat::kNobody ? "" : ": " + goneText(gone.rank());
  return Clock::now() >= deadline || who.empty()
             ? text(name(), " did not finish within ", limit.count(), " ms", who)
             : text(name(), " cannot finish", who);
}

}  // namespace

std::string Sum::name() const {
  return text("the ", what, " of ", numel,
              element == Element::kFloat32 ? " float32 elements" : " int32 elements");
}

void sumAlone(Library& library, const Sum& sum, std::chrono::milliseconds limit) {
  Library::JobPtr job;
  const std::shared_ptr<void> values(sum.owner, sum.data);
  auto reason = library.submit(values, values, sum.numel, sum.element, job);
  const auto name = [&] { return sum.name(); };
  reason = reason.empty() ? waitForJob(job, name, Library::turn(job) + limit, limit, nullptr)
                          : text(name(), " could not be submitted: ", reason);
  if (!reason.empty()) {
    throw std::runtime_error(reason);
  }
}

PendingJobs::PendingJobs(Runtime& runtime, const Delegation& group, std::uint64_t sequence,
                         std::uint64_t jobs, CallLimits limits)
    : runtime_(runtime),
      group_(group),
      failover_(group.failover.get()),
      first_(sequence),
      next_(sequence),
      end_(sequence + jobs),
      limits_(limits) {}

PendingJobs::~PendingJobs() {
  if (next_ != end_) {
    runtime_.abandon(next_);
  }
  if (jobs_.empty()) {
    return;
  }
  const auto& newest = jobs_.rbegin()->second.submitted;
  auto& library = runtime_.library;
  const auto epoch = newest ? Library::epochOf(newest) : library.epoch();
  runtime_.fail(textOrOutOfMemory([this] {
                  return text(nameOf(*jobs_.begin()), " was dropped before it was finished");
                }),
                epoch);
  static_cast<void>(library.stoppedWithin(kStopAfterFailure, epoch));
  library.release();
}

void PendingJobs::submit(Sum sum) {
  JobsBySequence made;
  auto& job = *made.emplace(next_, Job{std::move(sum)}).first;
  const auto& own = job.second.sum;
  runtime_.order.await(next_, runtime_.state);
  runtime_.throwIfBroken();  // then it may not be the turn of this job
  const std::shared_ptr<void> in(own.owner, own.data);
  auto out = in;
  if (failover_ != nullptr) {
    out = failover_->admit(numberOf(job), next_ == first_, own.numel * kWord);
  }
  runtime_.throwIfBroken();
  jobs_.merge(made);  // so that the destructor fails the group if the submission throws
  std::string reason;
  if (out != nullptr) {
    reason = runtime_.library.submit(in, out, own.numel, own.element, job.second.submitted);
    reason = reason.empty() ? "" : text(nameOf(job), " could not be submitted: ", reason);
    if (!reason.empty() && failover_ == nullptr) {
      runtime_.raise(reason, runtime_.library.epoch());
    }
  }
  ++next_;
  if (!reason.empty()) {
    failover_->suspend(reason);  // before the next job is submitted in place of this one
  }
  runtime_.order.pass();
  debug("submitted ", [&] { return nameOf(job); });
}

void PendingJobs::finish() {
  auto& job = *jobs_.begin();
  if (!waitForSum(job)) {
    redo(job);
  }
  debug("finished ", [&] { return nameOf(job); });
  const auto then = std::move(job.second.sum.then);
  jobs_.erase(jobs_.begin());
  if (then) {
    then();
  }
}

std::string PendingJobs::nameOf(const JobsBySequence::value_type& job) {
  return text(job.second.sum.name(), " (number ", job.first, ")");
}

std::uint64_t PendingJobs::numberOf(const JobsBySequence::value_type& job) const {
  return job.first - group_.firstSequence;
}

bool PendingJobs::waitForSum(const JobsBySequence::value_type& job) {
  const auto& submitted = job.second.submitted;
  if (submitted == nullptr) {
    return false;
  }
  const auto begun = Clock::now();
  deadline_ = std::min(deadline_, Library::turn(submitted) + limits_.library);
  const auto name = [&] { return nameOf(job); };
  const auto reason =
      waitForJob(submitted, name, deadline_, limits_.library, group_.heartbeat.get());
  runtime_.waited.fetch_add(
      static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - begun).count()),
      std::memory_order_relaxed);
  if (failover_ != nullptr) {
    if (!reason.empty()) {
      failover_->suspend(reason);
      return false;
    }
    return failover_->copyOut(numberOf(job), job.second.sum.data);
  }
  if (!reason.empty()) {
    runtime_.raise(reason, Library::epochOf(submitted));
  }
  return true;
}

void PendingJobs::redo(const JobsBySequence::value_type& job) {
  const auto& sum = job.second.sum;
  auto& library = runtime_.library;
  if (const auto& submitted = job.second.submitted) {
    // The client library may read the values until it has stopped.
    static_cast<void>(library.stoppedWithin(kStopAfterFailure, Library::epochOf(submitted)));
  }
  library.release();
  try {
    failover_->redo(numberOf(job), sum.element, sum.data, sum.numel, limits_.message, [&sum] {
      if (sum.overflowed) {
        OverflowMarks{static_cast<float*>(sum.data)}.toNaN(sum.numel);
      }
    });
  } catch (const std::exception& error) {
    runtime_.raise(error.what(), runtime_.library.epoch());
  }
  redone_ = true;
}

}  // namespace switchml_delegate
