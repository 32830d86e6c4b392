/// Sums and broadcasts of all ranks over the connections to their neighbours in a ring.
///
/// Each element is added up on its way once around the ring, and its sum goes around once more. So
/// all ranks have the same bits. SwitchML is not known here.
#pragma once

#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "SwitchMLAgreement.hpp"
#include "SwitchMLAllreduce.hpp"

namespace switchml_torch {

constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);

/// Channels of the ring of a group: each has one use.
enum Channel : unsigned { kWarnings, kRecoveries, kMeasurements, kBeats };

/// Calls a function when a time has passed, unless this is destroyed before.
class Deadline {
 public:
  Deadline(std::chrono::milliseconds time, std::function<void()> passed)
      : waiting_([this, time, own = std::move(passed)] {
          std::unique_lock<std::mutex> lock(mutex_);
          if (!changed_.wait_for(lock, time, [this] { return met_; })) {
            own();
          }
        }) {}

  ~Deadline() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      met_ = true;
    }
    changed_.notify_all();
    waiting_.join();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool met_ = false;
  std::thread waiting_;
};

/// Collectives that all ranks call in the same order, one at a time. `limit` is for each message.
class RingCollectives {
 public:
  using Milliseconds = std::chrono::milliseconds;

  /// A rank that is known to be gone, and why.
  struct Loss {
    std::size_t rank;
    std::string why;
  };

  RingCollectives(Ring ring, unsigned channel, int rank, int size)
      : ring_(std::move(ring)),
        channel_(channel),
        rank_(static_cast<std::size_t>(rank)),
        size_(static_cast<std::size_t>(size)) {}

  /// Rank whose messages this one receives.
  std::size_t before() const { return behind(1); }

  /// Sends a message to the next rank. Gloo may connect ranks only at their first one.
  void connect(Milliseconds limit) {
    char out = 0;
    char in = 0;
    if (size_ > 1) {
      exchange({&out, sizeof out}, {&in, sizeof in}, limit);
    }
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
      exchange(part(behind(step)), {partial.data(), bytes}, limit);
      auto* const sums = values + begin(in);
      std::transform(sums, sums + bytes / sizeof(Value), partial.begin(), sums, add<Value>);
    }
    for (std::size_t step = 0; step + 1 < size_; ++step) {
      exchange(part(behind(step + size_ - 1)), part(behind(step)), limit);
    }
  }

  /// Gives all ranks the bytes of `root`.
  void broadcast(std::size_t root, void* data, std::size_t bytes, Milliseconds limit) {
    if (rank_ != root) {
      exchange({}, {data, bytes}, limit);
    }
    if (next() != root) {
      exchange({data, bytes}, {}, limit);
    }
  }

  /// The values of all ranks. Where one is gone, all throw: whoever misses it tells the next one,
  /// and so does a rank that says so of itself, or has known it before.
  ///
  /// A rank that waits for its neighbour too long must not close its connections, as Gloo would at
  /// the end of a limit: those that hear nothing of this one would take it for the one that is
  /// gone. And each message may come later than the one before it, as the news has to come around.
  template <typename Value>
  std::vector<Value> gather(const Value& own, Milliseconds limit, const Loss* known = nullptr) {
    static_assert(std::is_trivially_copyable<Value>::value, "it is sent as it lies in memory");
    struct Entry {
      Value value;
      std::uint64_t gone;  // a rank, counted from 1
    };
    std::vector<Entry> all(size_);
    all[rank_] = {own, 0};
    std::uint64_t gone = known == nullptr ? 0 : known->rank + 1;
    bool deaf = known != nullptr && known->rank == before();
    std::string why = known == nullptr ? "" : known->why;
    const auto attempt = [&](std::size_t neighbour, const auto& function) {
      try {
        function();
        return true;
      } catch (const std::exception& error) {
        gone = gone == 0 ? neighbour + 1 : gone;
        why = why.empty() ? error.what() : why;
        return false;
      }
    };
    for (std::size_t step = 0; step + 1 < size_; ++step) {
      auto& out = all[behind(step)];
      auto& in = all[behind(step + 1)];
      out.gone = std::max(out.gone, gone);
      Messages messages(*this);
      deaf = deaf || !attempt(before(), [&] { messages.receive({&in, sizeof in}); });
      attempt(next(), [&] { messages.send({&out, sizeof out}); });
      const auto end = Clock::now() + limit + static_cast<Milliseconds::rep>(step + 1) * kPassedOn;
      const auto left = [end] {
        return std::max(std::chrono::duration_cast<Milliseconds>(end - Clock::now()), kPassedOn);
      };
      deaf = deaf || !attempt(before(), [&] { messages.awaitReceivedOpen(left()); });
      attempt(next(), [&] { messages.awaitSentOpen(left()); });
      gone = deaf ? gone : std::max(gone, in.gone);
    }
    if (gone != 0) {
      throw std::runtime_error(
          text("rank ", gone - 1, " is gone", why.empty() ? "" : " (" + why + ")"));
    }
    std::vector<Value> values;
    std::transform(all.begin(), all.end(), std::back_inserter(values),
                   [](const Entry& entry) { return entry.value; });
    return values;
  }

  /// Ends what is under way, and all that follows. Called by any thread.
  void abort() noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    aborted_ = true;
    for (auto& transfer : current_) {
      if (transfer.abort) {
        transfer.abort();
      }
    }
  }

  /// Lets go of the connections.
  void release() {
    std::lock_guard<std::mutex> lock(mutex_);
    aborted_ = true;
    current_ = {};
    ring_ = {};
  }

 private:
  using Transfers = std::array<Transfer, 2>;
  using Clock = std::chrono::steady_clock;
  static constexpr Milliseconds kPassedOn = std::chrono::seconds(2);  // by each rank

  struct Part {
    void* data = nullptr;
    std::size_t bytes = 0;
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

  /// A message in each direction. Once this is destroyed, nobody uses their memory any more.
  class Messages {
   public:
    explicit Messages(RingCollectives& ring) : ring_(ring) {}
    ~Messages() {
      std::lock_guard<std::mutex> lock(ring_.mutex_);
      ring_.current_ = {};
    }
    Messages(const Messages&) = delete;
    Messages& operator=(const Messages&) = delete;

    void receive(Part part) {
      begin(kReceived, part,
            [&](const Ring& ring) { return ring.receive(ring_.channel_, part.data, part.bytes); });
    }

    void send(Part part) {
      begin(kSent, part,
            [&](const Ring& ring) { return ring.send(ring_.channel_, part.data, part.bytes); });
    }

    void awaitReceived(Milliseconds limit) const { wait(kReceived, limit); }
    void awaitSent(Milliseconds limit) const { wait(kSent, limit); }

    /// These leave the connections open when the limit has passed.
    void awaitReceivedOpen(Milliseconds limit) const { waitOpen(kReceived, limit); }
    void awaitSentOpen(Milliseconds limit) const { waitOpen(kSent, limit); }

   private:
    enum Direction : std::size_t { kReceived, kSent };

    template <typename Function>
    void begin(Direction direction, Part part, const Function& function) {
      std::lock_guard<std::mutex> lock(ring_.mutex_);
      if (ring_.aborted_) {
        throw std::runtime_error("the ring has ended");
      }
      if (part.bytes != 0) {
        ring_.current_.at(direction) = own_.at(direction) = function(ring_.ring_);
      }
    }

    void wait(Direction direction, Milliseconds limit) const {
      const auto& transfer = own_.at(direction);
      if (transfer.wait && !transfer.wait(limit)) {
        throw std::runtime_error("no answer came");
      }
    }

    void waitOpen(Direction direction, Milliseconds limit) const {
      const auto& transfer = own_.at(direction);
      if (transfer.wait) {
        const Deadline deadline(limit, transfer.abort);
        wait(direction, kForever);
      }
    }

    RingCollectives& ring_;
    Transfers own_;
  };

  /// Sends and receives at the same time. All ranks know which parts are empty.
  void exchange(Part out, Part in, Milliseconds limit) {
    Messages messages(*this);
    messages.receive(in);
    messages.send(out);
    messages.awaitReceived(limit);
    messages.awaitSent(limit);
  }

  Ring ring_;
  const unsigned channel_;
  const std::size_t rank_;
  const std::size_t size_;
  std::mutex mutex_;
  bool aborted_ = false;
  Transfers current_;  // which abort() ends
};

}  // namespace switchml_torch
