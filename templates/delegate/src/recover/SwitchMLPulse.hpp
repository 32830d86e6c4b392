/// Signs of life between the ranks of a group.
///
/// Nobody tells the client library that a rank has ended, so it waits for the sum. Each rank sends
/// a beat to the next one in a ring of all ranks, and listens to the one before. Each beat names
/// the rank that is gone, as far as its sender knows, so all ranks learn of it:
///   - A rank whose connection is closed is gone for good.
///   - A rank of which nothing is heard for some time is gone until its beats come again, since a
///     process may be stopped and go on. Each beat replaces what the one before said of this.
///
/// A rank may also end because it has all its sums. So this alone is no failure.
#pragma once

#include "recover/SwitchMLRing.hpp"

namespace switchml_torch {

/// Signs of life of one rank.
class Pulse {
 public:
  using Clock = std::chrono::steady_clock;

  struct Times {
    std::chrono::milliseconds beat;
    std::chrono::milliseconds silence;  // after which a rank is gone
  };

  static constexpr int kNobody = -1;

  /// Sends nothing before begin().
  Pulse(Ring ring, int rank, int size, Times times)
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

  ~Pulse() { leave(); }

  /// Starts the beats, when all ranks have a Pulse.
  void begin() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    heardAt_ = now();
    begun_ = true;
    changed_.notify_all();
  }

  /// A rank that is gone, as far as this one knows, or kNobody. Lock-free.
  int gone() noexcept {
    const auto closed = closed_.load(std::memory_order_acquire);
    return closed == kNobody ? silent() : closed;
  }

  /// Ends the beats, without waiting.
  void close() noexcept {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    receiving_.abort();
    sending_.abort();
  }

  /// Ends the beats, and lets go of the connections.
  void leave() {
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
  struct Beat {
    std::int32_t gone = kNobody;
    std::int32_t closed = 0;  // its connection is
  };

  static Clock::duration now() { return Clock::now().time_since_epoch(); }

  /// A rank of which nothing is heard. A process that was stopped has the beats of that time yet to
  /// read, and it looks again long after it has looked before: its patience begins anew.
  int silent() noexcept {
    const auto time = now();
    if (time - lookedAt_.load(std::memory_order_acquire) > times_.silence / 6) {
      patientFrom_.store(time, std::memory_order_release);
    }
    lookedAt_.store(time, std::memory_order_release);
    if (time - heardAt_.load(std::memory_order_acquire) <= times_.silence) {
      return told_.load(std::memory_order_acquire);
    }
    const auto patient = time - patientFrom_.load(std::memory_order_acquire);
    return patient <= times_.silence ? kNobody : before_;
  }

  void listen() {
    awaitBegin();
    const auto receive = [this] { return ring_.receive(kBeats, &heard_, sizeof heard_); };
    while (heard_.closed == 0 && transfer(receiving_, receive, before_)) {
      const int gone = heard_.gone == rank_ ? kNobody : heard_.gone;
      if (heard_.closed != 0) {
        note(heard_.gone);
      } else if (told_.exchange(gone) != gone) {
        beatNow();
      }
      heardAt_.store(now(), std::memory_order_release);
    }
  }

  void beat() {
    awaitBegin();
    const auto send = [this] { return ring_.send(kBeats, &said_, sizeof said_); };
    while (said_.closed == 0) {
      const auto due = Clock::now() + times_.beat;
      const auto closed = closed_.load(std::memory_order_acquire);
      const auto told = told_.load(std::memory_order_acquire);
      said_ = closed == kNobody ? Beat{silent(), 0} : Beat{closed, 1};
      if (!transfer(sending_, send, next_)) {
        return;
      }
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait_until(lock, due, [&] { return ended_ || closed_ != closed || told_ != told; });
    }
  }

  void awaitBegin() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return begun_ || ended_; });
  }

  /// Waits for a message to or from another rank. False where that is gone, or the beats have
  /// ended.
  template <typename Function>
  bool transfer(Passage& message, const Function& begin, int other) {
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
  bool begun_ = false;
  bool ended_ = false;
  std::atomic<int> closed_{kNobody};  // first rank whose connection is known to be closed
  std::atomic<int> told_{kNobody};    // rank of which the one before hears nothing
  std::atomic<Clock::duration> heardAt_{Clock::duration::zero()};
  std::atomic<Clock::duration> lookedAt_{Clock::duration::zero()};
  std::atomic<Clock::duration> patientFrom_{Clock::duration::zero()};
  Beat heard_;
  Beat said_;
  Passage receiving_;
  Passage sending_;
  std::vector<std::thread> threads_;
};

}  // namespace switchml_torch
