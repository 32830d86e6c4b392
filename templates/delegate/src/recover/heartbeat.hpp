/// Heartbeat between the ranks of a group.
///
/// The client library does not learn that a rank has ended, so it waits for the sum. Each rank
/// sends a beat to the next one in a ring of all ranks, and receives those of the one before. Each
/// beat names the rank that is gone, as far as its sender knows, so all ranks learn of it:
///   - A rank whose connection is closed is gone for good.
///   - A rank from which nothing comes for some time is gone until its beats come again, since a
///     process may be stopped and go on. Each beat replaces the report of the one before on this.
///
/// A rank may also end because it has all its sums. So this alone is no failure.
#pragma once

#include "recover/ring.hpp"

namespace switchml_delegate {

class Heartbeat {
 public:
  static constexpr int kNobody = -1;

  using Clock = std::chrono::steady_clock;

  struct Times {
    std::chrono::milliseconds beat;
    std::chrono::milliseconds silence;  // after which a rank is gone
  };

  /// Sends nothing before begin().
  Heartbeat(Ring ring, int rank, int size, Times times)
      : rank_(rank),
        next_((rank + 1) % size),
        before_((rank + size - 1) % size),
        times_(times),
        ring_(std::move(ring)) {
    try {
      threads_.emplace_back([this] { listen(); });
      threads_.emplace_back([this] { beat(); });
    } catch (...) {
      leave();
      throw;
    }
  }

  ~Heartbeat() { leave(); }

  /// Starts it, when all ranks have one.
  void begin() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    receivedAt_ = now();
    state_ = state_ == State::kMade ? State::kBeating : state_;
    changed_.notify_all();
  }

  /// A rank that is gone, as far as this one knows, or kNobody. Lock-free.
  int gone() noexcept {
    const auto closed = closed_.load(std::memory_order_acquire);
    return closed == kNobody ? silent() : closed;
  }

  /// Ends it, without waiting.
  void close() noexcept {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      state_ = State::kEnded;
    }
    changed_.notify_all();
    receiving_.abort();
    sending_.abort();
  }

  /// Ends it, and lets go of the connections.
  void leave() noexcept {
    close();
    for (auto& thread : threads_) {
      thread.join();
    }
    threads_.clear();
    receiving_.end();
    sending_.end();
    ring_ = {};
  }

 private:
  enum class State : std::uint8_t { kMade, kBeating, kEnded };

  struct Beat {
    std::int32_t gone = kNobody;
    std::int32_t closed = 0;  // its connection is
  };

  static Clock::duration now() { return Clock::now().time_since_epoch(); }

  /// A rank from which nothing comes. A process that was stopped has the beats of that time yet to
  /// read, and it looks again long after it has looked before: its patience begins anew.
  int silent() noexcept {
    const auto time = now();
    if (time - queriedAt_.load(std::memory_order_acquire) > times_.silence / 6) {
      patientFrom_.store(time, std::memory_order_release);
    }
    queriedAt_.store(time, std::memory_order_release);
    if (time - receivedAt_.load(std::memory_order_acquire) <= times_.silence) {
      return reported_.load(std::memory_order_acquire);
    }
    const auto patient = time - patientFrom_.load(std::memory_order_acquire);
    return patient <= times_.silence ? kNobody : before_;
  }

  void listen() {
    awaitBegin();
    const auto receive = [this] {
      return ring_.receive(kHeartbeats, &incoming_, sizeof incoming_);
    };
    while (incoming_.closed == 0 && transfer(receiving_, receive, before_)) {
      const int gone = incoming_.gone == rank_ ? kNobody : incoming_.gone;
      if (incoming_.closed != 0) {
        note(incoming_.gone);
      } else if (reported_.exchange(gone) != gone) {
        beatNow();
      }
      receivedAt_.store(now(), std::memory_order_release);
    }
  }

  void beat() {
    awaitBegin();
    const auto send = [this] { return ring_.send(kHeartbeats, &outgoing_, sizeof outgoing_); };
    while (outgoing_.closed == 0) {
      const auto due = Clock::now() + times_.beat;
      const auto closed = closed_.load(std::memory_order_acquire);
      const auto reported = reported_.load(std::memory_order_acquire);
      outgoing_ = closed == kNobody ? Beat{silent(), 0} : Beat{closed, 1};
      if (!transfer(sending_, send, next_)) {
        return;
      }
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait_until(lock, due, [&] {
        return state_ == State::kEnded || closed_ != closed || reported_ != reported;
      });
    }
  }

  void awaitBegin() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return state_ != State::kMade; });
  }

  /// Waits for a message to or from another rank. False where that is gone, or the beats have
  /// ended.
  template <typename Function>
  bool transfer(PendingTransfer& message, const Function& begin, int other) {
    try {
      message.begin(begin);
      return message.wait();
    } catch (const std::exception&) {
      note(other);
      return false;
    }
  }

  /// The connection of the rank is closed.
  void note(int rank) {
    int nobody = kNobody;
    if (closed_.compare_exchange_strong(nobody, rank)) {
      beatNow();
    }
  }

  void beatNow() {
    const std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
  }

  const int rank_;
  const int next_;
  const int before_;
  const Times times_;
  Ring ring_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kMade;
  std::atomic<int> closed_{kNobody};    // first rank whose connection is known to be closed
  std::atomic<int> reported_{kNobody};  // silent rank that the one before has reported
  std::atomic<Clock::duration> receivedAt_{Clock::duration::zero()};
  std::atomic<Clock::duration> queriedAt_{Clock::duration::zero()};
  std::atomic<Clock::duration> patientFrom_{Clock::duration::zero()};
  Beat incoming_;
  Beat outgoing_;
  PendingTransfer receiving_;
  PendingTransfer sending_;
  std::vector<std::thread> threads_;
};

}  // namespace switchml_delegate
