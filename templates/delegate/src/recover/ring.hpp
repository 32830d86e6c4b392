/// Collectives of all ranks of a group, over the connections to their neighbours in a ring.
///
/// A sum takes two rounds. In the first round each element is added up on its way around the ring;
/// in the second its sum goes around the ring. So all ranks have the same bits. Nothing here knows
/// SwitchML.
///
/// Gloo reports no closed connection while half of a message has been transferred, and closes all
/// connections if one message is late. So a message is awaited without a limit, and a thread
/// interrupts the wait at its deadline, or if a connection has closed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

#include "SwitchMLInterface.hpp"
#include "base/mutex.hpp"
#include "recover/messages.hpp"
#include "recover/transfer.hpp"

namespace switchml_delegate {

/// Maximum time for one hop to forward an error.
constexpr std::chrono::milliseconds kHopLimit = std::chrono::seconds(2);

/// All ranks call the same collectives in the same order, each from one thread at a time: the one
/// that makes the group, swml-recovery, or the one of a call. Any thread calls losePredecessor()
/// and abort(). A collective throws std::runtime_error if a neighbour is gone. `limit` is for each
/// message of the first step; a message of step k has k * kHopLimit more, so that the rank whose
/// neighbour is gone reports this before others report that rank.
class RingCollectives {
 public:
  using Milliseconds = std::chrono::milliseconds;

  RingCollectives(Ring ring, unsigned channel, int rank, int size);
  ~RingCollectives();

  /// Rank whose messages this rank receives.
  std::size_t predecessor() const { return behind(1); }

  /// Sends the first message to the successor, since Gloo may connect two ranks only then.
  void connect(Milliseconds limit);

  /// Replaces the values by their sums over all ranks.
  void sum(float* values, std::uint64_t numel, Milliseconds limit);
  void sum(std::int32_t* values, std::uint64_t numel, Milliseconds limit);

  /// Gives all ranks the bytes of `root`.
  void broadcast(std::size_t root, void* data, std::size_t bytes, Milliseconds limit);

  /// Returns the values of all ranks, by rank.
  template <typename Value>
  std::vector<Value> gather(const Value& own, Milliseconds limit) {
    static_assert(std::is_trivially_copyable<Value>::value, "it is sent as it lies in memory");
    std::vector<Value> all(size_);
    all[rank_] = own;
    gatherBytes(all.data(), sizeof(Value), limit);
    return all;
  }

  /// Ends the wait for the predecessor, whose connection has closed.
  void losePredecessor() noexcept;

  /// Ends the collective that has begun, and all later ones.
  void abort() noexcept;

  /// Aborts, waits until no exchange uses the connections, and releases them. Later collectives
  /// throw.
  void release() noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::time_point kNever = Clock::time_point::max();
  static constexpr Milliseconds kPollInterval = std::chrono::seconds(1);

  struct Buffer {
    void* data = nullptr;
    std::size_t bytes = 0;
  };

  struct Direction {
    PendingTransfer transfer;
    std::atomic<bool> closed{false};
  };

  class ExchangeInProgress;

  std::size_t successor() const { return (rank_ + 1) % size_; }
  std::size_t behind(std::size_t ranks) const { return (rank_ + 2 * size_ - ranks) % size_; }

  template <typename Value>
  void sumValues(Value* values, std::uint64_t numel, Milliseconds limit);

  /// `all` has an entry of `bytes` for each rank; that of this rank is set.
  void gatherBytes(void* all, std::size_t bytes, Milliseconds limit);

  /// Sends to the successor and receives from the predecessor at the same time, in a step of a
  /// collective. All ranks know which buffers are empty.
  void exchange(Buffer out, Buffer in, Milliseconds limit, std::size_t step);

  /// Throws std::runtime_error after release().
  void beginExchange() EXCLUDES(mutex_);

  /// Ends both transfers, when an exchange returns or throws.
  void endExchange() noexcept EXCLUDES(mutex_);

  /// Waits for the message to or from a rank.
  void await(Direction& direction, std::size_t rank, Clock::time_point deadline);

  void setDeadline(Clock::time_point deadline) EXCLUDES(mutex_);

  /// Interrupts the exchange when it is late, and polls the successor while it is not. Runs in the
  /// thread swml-ring.
  void watchDeadline();

  /// Finds out whether the connection to the successor has closed, which Gloo does not report while
  /// half of a message has been sent: Gloo refuses to begin a message over a closed connection.
  void pollSuccessor() noexcept;

  void close(Direction& direction) noexcept;

  Ring ring_;
  const unsigned channel_;
  const std::size_t rank_;
  const std::size_t size_;
  Direction in_;
  Direction out_;
  char polled_ = 0;  // data of the messages on kPolls

  std::atomic<bool> aborted_{false};
  Mutex mutex_;
  Condition changed_;
  Clock::time_point deadline_ GUARDED_BY(mutex_) = kNever;  // of the exchange that has begun
  Clock::time_point wakesAt_ GUARDED_BY(mutex_) = kNever;   // the thread swml-ring
  bool exchanging_ GUARDED_BY(mutex_) = false;
  bool released_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace switchml_delegate
