/// Signs of life between the ranks of a group.
///
/// Nobody tells the client library that a rank has ended, so it waits for the sum. Each rank sends
/// a beat to the next one in a ring of all ranks, and listens to the one before. A rank is gone
/// when its connection is closed, or when nothing was heard of it for some time. Each beat names
/// the rank that is gone, as far as its sender knows, so all ranks learn of it.
///
/// A rank may also end because it has all its sums. So this alone is no failure.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "SwitchMLAllreduce.hpp"
#include "SwitchMLRing.hpp"

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

  Pulse(Ring ring, int rank, int size, Times times)
      : next_((rank + 1) % size),
        before_((rank + size - 1) % size),
        times_(times),
        ring_(std::move(ring)) {
    listening_ = std::thread([this] { listen(); });
    try {
      beating_ = std::thread([this] { beat(); });
    } catch (...) {
      leave();
      throw;
    }
  }

  ~Pulse() { leave(); }
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

  /// First rank that is known to be gone, or kNobody. Lock-free. Where this process was stopped
  /// itself, the rank before it may seem silent until its beats are read.
  int gone() const noexcept {
    const auto known = gone_.load(std::memory_order_acquire);
    const auto passed = Clock::now().time_since_epoch() - heardAt_.load(std::memory_order_acquire);
    return known == kNobody && passed > times_.silence ? before_ : known;
  }

  /// Ends the beats, without waiting.
  void close() noexcept {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
      for (const auto* transfer : {&receiving_, &sending_}) {
        if (transfer->abort) {
          transfer->abort();
        }
      }
    }
    changed_.notify_all();
  }

  /// Ends the beats, and lets go of the connections.
  void leave() {
    close();
    for (auto* thread : {&listening_, &beating_}) {
      if (thread->joinable()) {
        thread->join();
      }
    }
    receiving_ = sending_ = {};
    ring_ = {};
  }

 private:
  struct Beat {
    std::int32_t gone = kNobody;
  };

  void listen() {
    const auto receive = [this] { return ring_.receive(kBeats, &heard_, sizeof heard_); };
    while (heard_.gone == kNobody && transfer(receiving_, receive, before_)) {
      heardAt_.store(Clock::now().time_since_epoch(), std::memory_order_release);
      note(heard_.gone);
    }
  }

  void beat() {
    const auto send = [this] { return ring_.send(kBeats, &said_, sizeof said_); };
    while (said_.gone == kNobody) {
      said_.gone = gone();
      if (!transfer(sending_, send, next_)) {
        return;
      }
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait_for(lock, times_.beat, [this] { return ended_ || gone_ != kNobody; });
    }
  }

  /// Waits for a message to or from another rank. False where that is gone, or the beats have
  /// ended.
  template <typename Function>
  bool transfer(Transfer& current, const Function& begin, int other) {
    try {
      std::unique_lock<std::mutex> lock(mutex_);
      if (ended_) {
        return false;
      }
      const auto own = current = begin();
      lock.unlock();
      return own.wait(kForever);
    } catch (const std::exception&) {
      note(other);
      return false;
    }
  }

  void note(int rank) {
    int nobody = kNobody;
    if (rank != kNobody && gone_.compare_exchange_strong(nobody, rank)) {
      { const std::lock_guard<std::mutex> lock(mutex_); }
      changed_.notify_all();
    }
  }

  const int next_;
  const int before_;
  const Times times_;
  Ring ring_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::atomic<int> gone_{kNobody};
  std::atomic<Clock::duration> heardAt_{Clock::now().time_since_epoch()};
  Beat heard_;
  Beat said_;
  Transfer receiving_;
  Transfer sending_;
  std::thread listening_;
  std::thread beating_;
};

}  // namespace switchml_torch
