/// Sums and broadcasts of all ranks over the connections to their neighbours in a ring.
///
/// Each element is added up on its way once around the ring, and its sum goes around once more. So
/// all ranks have the same bits. SwitchML is not known here.
///
/// Gloo tells nobody that a connection has closed where a message is half done, and closes all of
/// them where one is late. So messages are awaited for ever, and a thread interrupts them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "SwitchMLInterface.hpp"
#include "base/quietly.hpp"
#include "base/text.hpp"

namespace switchml_delegate {

constexpr std::chrono::milliseconds kPassedOn = std::chrono::seconds(2);  // news, by each rank

/// Channels of the ring of a group: each has one use. Nobody receives on the last one.
enum Channel : unsigned { kWarnings, kRecoveries, kHeartbeats, kLooks };

/// A message to or from a neighbour, and then another: one thread begins, awaits and ends them, and
/// any may interrupt them. Nobody uses the memory of one that has ended. Gloo is called without a
/// lock.
class PendingTransfer {
 public:
  ~PendingTransfer() { end(); }

  /// Ends the message before, and begins the one that `make` returns. wait() throws what `make`
  /// does.
  template <typename Function>
  void begin(const Function& make) noexcept {
    end();
    Transfer made;
    try {
      if (!aborted_) {
        made = make();  // which may wait for the other rank to connect
      }
    } catch (...) {
      thrown_ = std::current_exception();
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    transfer_ = std::move(made);
  }

  /// Returns when it has arrived, or false when it was interrupted. Throws as a Transfer does.
  bool wait(std::chrono::milliseconds limit = kForever) {
    if (thrown_ && !aborted_) {
      std::rethrow_exception(thrown_);
    }
    return !aborted_ && (!transfer_.wait || transfer_.wait(limit));
  }

  void interrupt() noexcept {
    std::unique_lock<std::mutex> lock(mutex_);
    if (transfer_.abort) {
      ++interrupts_;
      lock.unlock();
      transfer_.abort();
      lock.lock();
      --interrupts_;
      changed_.notify_all();
    }
  }

  /// Interrupts this message and all later ones.
  void abort() noexcept {
    aborted_ = true;
    interrupt();
  }

  void end() noexcept {
    thrown_ = nullptr;
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return interrupts_ == 0; });
    const auto ended = std::exchange(transfer_, {});
    lock.unlock();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Transfer transfer_;
  std::exception_ptr thrown_;  // by what should have made it; of the thread that begins it
  int interrupts_ = 0;
  std::atomic<bool> aborted_{false};
};

/// Collectives that all ranks call in the same order, one at a time. They throw std::runtime_error
/// where a neighbour is gone. `limit` is for each message of the first step; later ones have more
/// time, so that the rank that misses its neighbour can say so before others miss that rank.
class RingCollectives {
 public:
  using Milliseconds = std::chrono::milliseconds;

  RingCollectives(Ring ring, unsigned channel, int rank, int size)
      : ring_(std::move(ring)),
        channel_(channel),
        rank_(static_cast<std::size_t>(rank)),
        size_(static_cast<std::size_t>(size)),
        minding_([this] { mind(); }) {}

  ~RingCollectives() { release(); }

  /// Rank whose messages this one receives.
  std::size_t before() const { return behind(1); }

  /// Sends a message to the next rank. Gloo may connect ranks only at their first one.
  void connect(Milliseconds limit) {
    char out = 0;
    char in = 0;
    exchange({&out, sizeof out}, {&in, sizeof in}, limit, 0);
  }

  /// Replaces the values by their sums over all ranks.
  template <typename Value>
  void sum(Value* values, std::uint64_t numel, Milliseconds limit) {
    const auto begin = [&](std::size_t piece) {
      return numel / size_ * piece + std::min<std::uint64_t>(numel % size_, piece);
    };
    const auto part = [&](std::size_t piece) {
      return Part{values + begin(piece), (begin(piece + 1) - begin(piece)) * sizeof(Value)};
    };
    std::vector<Value> partial(begin(1));
    for (std::size_t step = 0; step + 1 < size_; ++step) {
      const auto in = behind(step + 1);
      const auto bytes = part(in).bytes;
      exchange(part(behind(step)), {partial.data(), bytes}, limit, step);
      auto* const sums = values + begin(in);
      std::transform(sums, sums + bytes / sizeof(Value), partial.begin(), sums, add<Value>);
    }
    for (std::size_t step = size_ - 1; step + 2 < 2 * size_; ++step) {
      exchange(part(behind(step)), part(behind(step + 1)), limit, step);
    }
  }

  /// Gives all ranks the bytes of `root`.
  void broadcast(std::size_t root, void* data, std::size_t bytes, Milliseconds limit) {
    const auto step = (rank_ + size_ - root) % size_;
    if (rank_ != root) {
      exchange({}, {data, bytes}, limit, step);
    }
    if (next() != root) {
      exchange({data, bytes}, {}, limit, step);
    }
  }

  /// The values of all ranks.
  template <typename Value>
  std::vector<Value> gather(const Value& own, Milliseconds limit) {
    static_assert(std::is_trivially_copyable<Value>::value, "it is sent as it lies in memory");
    std::vector<Value> all(size_);
    all[rank_] = own;
    const auto part = [&all](std::size_t rank) { return Part{&all[rank], sizeof(Value)}; };
    for (std::size_t step = 0; step + 1 < size_; ++step) {
      exchange(part(behind(step)), part(behind(step + 1)), limit, step);
    }
    return all;
  }

  /// Ends the wait for the rank before, whose connection has closed. Called by any thread.
  void lose() noexcept { close(in_); }

  /// Ends what is under way, and all that follows. Called by any thread.
  void abort() noexcept {
    aborted_ = true;
    in_.transfer.abort();
    out_.transfer.abort();
  }

  /// Lets go of the connections.
  void release() noexcept {
    abort();
    std::unique_lock<std::mutex> lock(mutex_);
    released_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return end_ == kNever; });
    lock.unlock();
    if (minding_.joinable()) {
      minding_.join();
    }
    ring_ = {};
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::time_point kNever = Clock::time_point::max();
  static constexpr Milliseconds kLook = std::chrono::seconds(1);

  struct Part {
    void* data = nullptr;
    std::size_t bytes = 0;
  };

  struct Direction {
    PendingTransfer transfer;
    std::atomic<bool> closed{false};
  };

  std::size_t next() const { return (rank_ + 1) % size_; }
  std::size_t behind(std::size_t steps) const { return (rank_ + 2 * size_ - steps) % size_; }

  template <typename Value>
  static Value add(Value one, Value other) {
    if constexpr (std::is_integral<Value>::value) {
      using Bits = typename std::make_unsigned<Value>::type;
      return static_cast<Value>(static_cast<Bits>(one) + static_cast<Bits>(other));
    } else {
      return one + other;
    }
  }

  /// Sends and receives at the same time. All ranks know which parts are empty.
  void exchange(Part out, Part in, Milliseconds limit, std::size_t number) {
    const auto end = Clock::now() + limit + static_cast<Milliseconds::rep>(number) * kPassedOn;
    struct Step {
      ~Step() {
        ring.in_.transfer.end();
        ring.out_.transfer.end();
        ring.endAt(kNever);
      }
      RingCollectives& ring;
    };
    const Step step{*this};
    if (in.bytes != 0) {
      in_.transfer.begin([&] { return ring_.receive(channel_, in.data, in.bytes); });
    }
    if (out.bytes != 0) {
      out_.transfer.begin([&] { return ring_.send(channel_, out.data, out.bytes); });
    }
    try {
      await(in_, before(), end);
    } catch (const std::exception&) {
      // Gloo sends nothing to a rank after a message that was ended half-way, so the next rank
      // would not hear why this one is gone.
      try {
        await(out_, next(), Clock::now() + kPassedOn);
      } catch (const std::exception&) {  // that rank is gone as well
      }
      throw;
    }
    await(out_, next(), end);
  }

  /// Waits for the message to or from a rank.
  void await(Direction& direction, std::size_t rank, Clock::time_point end) {
    try {
      for (endAt(end); !direction.transfer.wait(); endAt(end)) {
        const auto now = Clock::now();
        if (aborted_ || now >= end) {
          throw std::runtime_error(direction.closed ? "its connection has closed"
                                                    : "no answer came");
        }
        end = direction.closed ? std::min(end, now + kLook) : end;  // it may have arrived before
      }
    } catch (const std::exception& error) {
      throw std::runtime_error(goneText(rank, error.what()));
    }
  }

  void endAt(Clock::time_point end) {
    const std::lock_guard<std::mutex> lock(mutex_);
    end_ = end;
    if (end_ < wakes_ || released_) {
      changed_.notify_all();
    }
  }

  /// Interrupts what is late, and a message that is half sent where the connection has closed.
  void mind() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!released_) {
      wakes_ = kNever;
      changed_.wait(lock, [this] { return end_ != kNever || released_; });
      wakes_ = std::min(end_, Clock::now() + kLook);
      const bool sooner =
          changed_.wait_until(lock, wakes_, [this] { return end_ < wakes_ || released_; });
      if (sooner || end_ == kNever) {
        continue;
      }
      const bool late = Clock::now() >= end_;
      end_ = late ? Clock::now() + kLook : end_;  // until the thread that waits has seen it
      lock.unlock();
      if (late) {
        in_.transfer.interrupt();
        out_.transfer.interrupt();
      } else {
        look();
      }
      lock.lock();
    }
  }

  /// Gloo refuses a message to a rank whose connection has closed.
  void look() noexcept {
    try {
      ring_.send(kLooks, &looked_, sizeof looked_);
    } catch (const std::exception&) {
      close(out_);
    }
  }

  void close(Direction& direction) noexcept {
    direction.closed = true;
    direction.transfer.interrupt();
  }

  Ring ring_;
  const unsigned channel_;
  const std::size_t rank_;
  const std::size_t size_;
  Direction in_;
  Direction out_;
  char looked_ = 0;

  std::atomic<bool> aborted_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  Clock::time_point end_ = kNever;    // of the step under way
  Clock::time_point wakes_ = kNever;  // the thread that minds it
  bool released_ = false;
  std::thread minding_;
};

}  // namespace switchml_delegate
