#include "recover/failover.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "base/thread.hpp"

namespace switchml_delegate {
namespace {

/// Memory for a sum. The client library writes all of it for each job, and a caller copies it, so
/// large memory has huge pages if the kernel grants them: both take less time (bench_ranks.py).
Failover::Memory allocateSum(std::size_t bytes) {
  constexpr std::size_t kHugePage = std::size_t{1} << 21U;
  const auto unit = bytes < kHugePage ? alignof(std::max_align_t) : kHugePage;
  const auto size = (bytes + unit - 1) / unit * unit;
  auto* const memory = static_cast<std::uint64_t*>(std::aligned_alloc(unit, size));
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  if (unit == kHugePage) {
    madvise(memory, size, MADV_HUGEPAGE);
  }
  return Failover::Memory(memory, [](std::uint64_t* sum) { std::free(sum); });
}

}  // namespace

Failover::Failover(const Ring& ring, int rank, int size, Milliseconds limit, Callbacks callbacks,
                   FailoverCounters& counters)
    : rank_(rank),
      limit_(limit),
      callbacks_(std::move(callbacks)),
      counters_(counters),
      ring_(ring),
      collectives_(ring, kRecoveries, rank, size),
      callsBefore_(counters.calls),
      secondsBefore_(counters.seconds()) {
  receiveWarning();
  try {
    warnings_ = startThread("swml-warnings", [this] { receiveWarnings(); });
    recovery_ = startThread("swml-recovery", [this] { awaitFailures(); });
  } catch (...) {
    leave();
    throw;
  }
}

Failover::~Failover() { leave(); }

// ---- jobs ---------------------------------------------------------------------------------------

Failover::Memory Failover::admit(std::uint64_t job, bool beginsCall, std::size_t bytes) {
  Memory larger;
  std::uint64_t countedFailure = 0;  // failure after which this call has been counted
  MutexLock lock(mutex_);
  auto& slot = slotOf(slots_, job);
  for (;;) {
    waitForSlot(lock, job);
    if (state_ == State::kRunning) {
      if (slot.capacity >= bytes || larger) {
        return fillSlot(job, beginsCall, bytes, std::move(larger));
      }
      lock.unlock();
      larger = allocateSum(bytes);
      lock.lock();
    } else if (state_ == State::kRing && countedFailure != failures_) {
      countedFailure = failures_;
      if (!beginsCall || !countCall()) {
        return nullptr;
      }
      waitForEarlierJobs(lock, job);
      if (state_ == State::kRing) {
        const auto call = calls_;
        lock.unlock();
        attemptResume(job, call);
        lock.lock();
      }
    } else {
      return nullptr;
    }
  }
}

void Failover::waitForSlot(MutexLock& lock, std::uint64_t job) {
  changed_.wait(lock, [&]() REQUIRES(mutex_) {
    return state_ != State::kRunning ||
           (job < finished_ + kWindow && slotOf(slots_, job).use == Slot::Use::kFree);
  });
  awaitRecovery(lock);
}

bool Failover::countCall() { return isResumeAttempt(++calls_) && mayResume_; }

void Failover::waitForEarlierJobs(MutexLock& lock, std::uint64_t job) {
  changed_.wait(lock, [&]() REQUIRES(mutex_) {
    return state_ != State::kRing || (next_ == job && !hasReceived());
  });
}

Failover::Memory Failover::fillSlot(std::uint64_t job, bool beginsCall, std::size_t bytes,
                                    Memory larger) {
  auto& slot = slotOf(slots_, job);
  if (slot.capacity < bytes) {
    slot.memory = std::move(larger);
    slot.capacity = bytes;
  }
  slot.bytes = bytes;
  slot.use = Slot::Use::kPending;
  slot.beginsCall = beginsCall;
  admitted_ = job + 1;
  return slot.memory;
}

bool Failover::copyOut(std::uint64_t job, void* data) {
  MutexLock lock(mutex_);
  changed_.wait(lock,
                [&]() REQUIRES(mutex_) { return state_ != State::kRunning || finished_ == job; });
  if (state_ != State::kRunning) {
    return false;
  }
  ++finished_;
  auto& slot = slotOf(slots_, job);
  const auto memory = slot.memory;
  const auto bytes = slot.bytes;
  lock.unlock();
  changed_.notify_all();
  callbacks_.copy(data, memory.get(), bytes);
  lock.lock();
  if (slot.memory == memory) {  // no failure has replaced it
    slot.use = Slot::Use::kFree;
  }
  changed_.notify_all();
  return true;
}

void Failover::redo(std::uint64_t job, Element element, void* data, std::uint64_t numel,
                    Milliseconds limit, const std::function<void()>& prepare) {
  MutexLock lock(mutex_);
  awaitRecovery(lock);
  // This rank has received the sums of all jobs before next_ that it has not finished.
  changed_.wait(lock, [&]() REQUIRES(mutex_) {
    return isClosed() || (state_ == State::kRing && job <= next_);
  });
  if (isClosed()) {
    throw std::runtime_error(closeReason_);
  }
  if (job < admitted_) {
    ++counters_.redone;
  }
  if (job < next_) {
    const auto received = std::exchange(slotOf(slots_, job), {});
    lock.unlock();
    changed_.notify_all();
    callbacks_.copy(data, received.memory.get(), received.bytes);
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
    throw std::runtime_error(closeReason_);
  }
  lock.lock();
  ++next_;
  changed_.notify_all();
}

bool Failover::hasReceived() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const Slot& slot) { return slot.use == Slot::Use::kReceived; });
}

// ---- abort and leave ----------------------------------------------------------------------------

void Failover::abort(const std::string& reason) noexcept {
  shutDown(textOrOutOfMemory([&] { return reason; }),
           textOrOutOfMemory([&] { return goneText(rank_, reason); }));
}

void Failover::close(const std::string& reason) noexcept {
  shutDown(textOrOutOfMemory([&] { return reason; }), {});
  receiving_.abort();
  const MutexLock lock(mutex_);
  state_ = isFinished() ? State::kLeft : State::kLeaving;
  changed_.notify_all();
}

void Failover::leave() noexcept {
  close(textOrOutOfMemory([] { return "the process group has ended"; }));
  for (auto* const thread : {&warnings_, &recovery_}) {
    if (thread->joinable()) {
      thread->join();
    }
  }
  MutexLock lock(mutex_);
  changed_.wait(lock, [this]() REQUIRES(mutex_) { return isFinished() && !suspending_; });
  slots_ = {};
  lock.unlock();
  receiving_.end();
  sending_.end();
  collectives_.release();
  ring_ = {};
}

Failover::State Failover::shutDown(std::string reason, const std::string& finalWarning) noexcept {
  MutexLock lock(mutex_);
  const auto before = state_;
  if (isClosed()) {
    return before;
  }
  state_ = State::kClosing;
  closeReason_ = std::move(reason);
  lock.unlock();
  changed_.notify_all();
  counters_.end();
  if (!finalWarning.empty()) {
    sendFinalWarning(finalWarning);
  }
  collectives_.abort();
  std::string line;
  // A copy: as soon as the state is kClosed, another thread may destroy this object.
  std::function<void(const std::string&)> say;
  if (before == State::kRing && rank_ == 0) {
    quietly([&] {
      const MutexLock again(mutex_);
      line = text(closeReason_, "; ", counters_.calls - callsBefore_,
                  " allreduces went over Gloo, in ", counters_.seconds() - secondsBefore_, " s");
      say = callbacks_.say;
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

Failover::State Failover::fail(const std::string& reason) noexcept {
  MutexLock lock(mutex_);
  const auto cause = cause_;
  const auto first =
      isSuspended() ? textOrOutOfMemory([&] { return causeText(cause) + "; "; }) : std::string();
  lock.unlock();
  return shutDown(
      textOrOutOfMemory([&] { return text(first, "the ranks cannot go on over Gloo: ", reason); }),
      reason);
}

// ---- warnings -----------------------------------------------------------------------------------

void Failover::suspend(const std::string& reason) noexcept { suspend(warningOf(reason)); }

void Failover::suspend(const Warning& warning) noexcept {
  MutexLock lock(mutex_);
  if (state_ != State::kRunning) {
    return;
  }
  state_ = State::kSuspended;
  cause_ = warning;
  suspending_ = true;
  lock.unlock();
  changed_.notify_all();
  counters_.begin();
  try {
    callbacks_.stop(causeText(warning));
    sending_.begin([this] { return ring_.send(kWarnings, &cause_, sizeof cause_); });
  } catch (const std::exception& error) {  // no memory: warn the successor all the same
    fail(reasonOf(error));
  }
  lock.lock();
  suspending_ = false;
  state_ = state_ == State::kSuspended ? State::kWarned : state_;
  changed_.notify_all();
}

Warning Failover::warningOf(const std::string& reason) const noexcept {
  Warning warning;
  warning.rank = rank_;
  reason.copy(warning.reason, sizeof warning.reason - 1);
  return warning;
}

void Failover::sendFinalWarning(const std::string& reason) noexcept {
  auto warning = warningOf(reason);
  warning.final = 1;
  PendingTransfer message;
  try {
    message.begin([&] { return ring_.send(kWarnings, &warning, sizeof warning); });
    message.wait(kHopLimit);
  } catch (const std::exception&) {  // the ranks behind the successor notice that it is gone
  }
}

void Failover::receiveWarning() {
  receiving_.begin([this] { return ring_.receive(kWarnings, &incoming_, sizeof incoming_); });
}

void Failover::receiveWarnings() {
  try {
    while (receiving_.wait()) {
      const auto warning = incoming_;
      receiveWarning();
      if (warning.final != 0) {
        if (fail(receivedText(warning.reason)) == State::kRunning) {
          callbacks_.stop(receivedText(warning.reason));
        }
        continue;
      }
      MutexLock lock(mutex_);
      warning_ = warning;
      lock.unlock();
      changed_.notify_all();
      suspend(warning);
    }
  } catch (const std::exception& error) {
    // The predecessor is gone. It may have ended after its last job, so this alone is no failure.
    collectives_.losePredecessor();
    auto reason = reasonOf(error);
    const MutexLock lock(mutex_);
    lost_ = std::move(reason);
    changed_.notify_all();
  }
}

std::string Failover::causeText(const Warning& cause) {
  return text("rank ", cause.rank, ": ", receivedText(cause.reason));
}

// ---- recovery -----------------------------------------------------------------------------------

void Failover::awaitRecovery(MutexLock& lock) {
  const bool inTime = changed_.wait_for(
      lock, limit_, [this]() REQUIRES(mutex_) { return !isSuspended() || warning_; });
  if (!inTime && lost_.empty()) {
    lost_ = text("nothing came from it within ", limit_.count(), " ms");
    changed_.notify_all();
  }
  changed_.wait(lock, [this]() REQUIRES(mutex_) { return !isSuspended(); });
}

void Failover::awaitFailures() {
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this]() REQUIRES(mutex_) {
      return isFinished() || (state_ == State::kWarned && isWarned());
    });
    if (isFinished()) {
      // After an aborted message, Gloo's thread polls the connection for the rest of it. So the
      // connections are closed, unless the group is left within kHopLimit.
      const bool left = changed_.wait_for(
          lock, kHopLimit, [this]() REQUIRES(mutex_) { return state_ == State::kLeft; });
      lock.unlock();
      if (!left && ring_.close) {
        ring_.close();
      }
      return;
    }
    const auto lost = std::exchange(lost_, {});
    const bool warned = warning_.has_value();
    lock.unlock();
    if (warned) {
      recover();
    } else {
      fail(textOrOutOfMemory([&] { return goneText(collectives_.predecessor(), lost); }));
    }
    lock.lock();
  }
}

void Failover::recover() noexcept {
  try {
    MutexLock lock(mutex_);
    const auto own = finished_;
    lock.unlock();
    // A rank whose predecessor does not warn it reports this before others report that rank.
    const auto finished = collectives_.gather(own, limit_ + kHopLimit);
    const auto most = std::max_element(finished.begin(), finished.end());
    auto received = shareSums(*std::min_element(finished.begin(), finished.end()), *most,
                              static_cast<std::size_t>(most - finished.begin()));
    lock.lock();
    if (state_ != State::kWarned) {
      return;
    }
    state_ = State::kRing;
    warning_.reset();
    next_ = *most;
    ++failures_;
    calls_ = 0;
    for (auto job = next_; job < admitted_; ++job) {
      calls_ += slotOf(slots_, job).beginsCall ? 1 : 0;
    }
    slots_ = std::move(received);
    const auto cause = cause_;
    lock.unlock();
    changed_.notify_all();
    if (rank_ == 0) {
      quietly([&] {
        callbacks_.say(
            text("warning: ", causeText(cause), "; allreduce goes over Gloo from here on"));
      });
    }
  } catch (const std::exception& error) {
    fail(reasonOf(error));
  }
}

Failover::Slots Failover::shareSums(std::uint64_t low, std::uint64_t high, std::size_t root) {
  MutexLock lock(mutex_);
  auto own = slots_;  // a copy of the pointers, destroyed before recover() replaces the slots
  const auto finished = finished_;
  lock.unlock();
  Slots received;
  for (auto job = low; job < high; ++job) {
    const auto& slot = slotOf(own, job);
    auto sum = allocateSum(slot.bytes);
    if (job < finished) {
      std::memcpy(sum.get(), slot.memory.get(), slot.bytes);
    }
    collectives_.broadcast(root, sum.get(), slot.bytes, limit_);
    if (job >= finished) {
      auto& lacked = slotOf(received, job);
      lacked.use = Slot::Use::kReceived;
      lacked.memory = std::move(sum);
      lacked.bytes = slot.bytes;
    } else if (std::memcmp(sum.get(), slot.memory.get(), slot.bytes) != 0) {
      throw std::runtime_error("SwitchML has given them different sums");
    }
  }
  return received;
}

// ---- resume attempts ----------------------------------------------------------------------------

bool Failover::isResumeAttempt(std::uint64_t call) const {
  const auto first = callbacks_.firstAttempt;
  return call >= first && call % first == 0 && (call / first & (call / first - 1)) == 0;
}

void Failover::attemptResume(std::uint64_t job, std::uint64_t call) {
  try {
    std::string line;
    const auto refused = takeResumeSteps(collectives_, callbacks_.resumeSteps, limit_);
    if (refused) {
      MutexLock lock(mutex_);
      mayResume_ = !refused->permanent;
      const auto cause = cause_;
      lock.unlock();
      callbacks_.stop(causeText(cause));
      line =
          text("warning: call ", call, " after the failure: rank ", refused->rank, ": ",
               refused->reason, "; ", kStaysWithGloo,
               refused->permanent ? "" : text(", and SwitchML is tried again at call ", 2 * call));
    } else if (resume(job)) {
      line = text("allreduce returns to SwitchML at call ", call, " after the failure");
    }
    if (rank_ == 0 && !line.empty()) {
      callbacks_.say(line);
    }
  } catch (const std::exception& error) {
    fail(reasonOf(error));
  }
}

bool Failover::resume(std::uint64_t job) {
  MutexLock lock(mutex_);
  if (state_ != State::kRing) {
    return false;
  }
  lock.unlock();
  callbacks_.resume();
  lock.lock();
  if (state_ != State::kRing) {  // closed meanwhile
    return false;
  }
  counters_.end();
  ++counters_.resumes;
  admitted_ = finished_ = job;
  state_ = State::kRunning;
  // The predecessor may have used its context again, and failed again, before this rank.
  const auto warning = warning_;
  lock.unlock();
  changed_.notify_all();
  if (warning) {
    suspend(*warning);
  }
  return true;
}

}  // namespace switchml_delegate
