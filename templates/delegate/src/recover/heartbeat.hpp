/// Heartbeat between the ranks of a group.
///
/// The client library does not notice that a rank has ended, and waits for its values. So each rank
/// learns from heartbeats which rank is gone:
///   1. Each rank sends a beat to its successor in a ring of all ranks, and receives those of its
///      predecessor. A beat names the rank that is gone, as far as its sender knows; so the name of
///      that rank goes around the ring.
///   2. A rank whose connection has closed is gone for good. A rank that learns this, from a beat
///      or because a connection of its own closed, forwards it in one last beat.
///   3. A rank from which no beat comes for `silence` is gone until its beats come again, since a
///      process may be stopped and go on. Each beat replaces the predecessor's earlier report of a
///      silent rank.
///
/// A rank may also end because it has all its sums, so a rank that is gone is no failure by itself.
/// The wait for a job acts on gone() (sum/pending_jobs.cpp): it ends if the job cannot finish.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "base/mutex.hpp"
#include "recover/messages.hpp"
#include "recover/transfer.hpp"

namespace switchml_delegate {

/// Heartbeat of one rank. begin(), gone() and close() are called by any thread, leave() by the one
/// that ends the group.
class Heartbeat {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr int kNobody = -1;

  /// The same on all ranks: kHeartbeatTimes in joining.cpp.
  struct Times {
    std::chrono::milliseconds beat;     // between two beats
    std::chrono::milliseconds silence;  // time without a beat after which a rank is gone
  };

  /// Sends nothing before begin().
  Heartbeat(Ring ring, int rank, int size, Times times);
  ~Heartbeat();

  /// Begins to send and to receive. Called when all ranks have a heartbeat.
  void begin() noexcept;

  /// Returns a rank that is gone, as far as this rank knows, or kNobody. Lock-free.
  int gone() noexcept;

  /// Ends the heartbeat, without waiting.
  void close() noexcept;

  /// Ends the heartbeat, waits for its threads, and releases the connections. The threads end soon:
  /// close() aborts the messages for which they wait.
  void leave() noexcept;

 private:
  enum class State : std::uint8_t { kMade, kBeating, kEnded };

  static Clock::duration now() { return Clock::now().time_since_epoch(); }

  /// Returns a rank from which nothing comes: the predecessor, or one that the predecessor has
  /// reported. If this process was stopped, as a long time between two calls shows, the beats of
  /// that time are still to be received; so the predecessor then has another `silence` of time.
  int silentRank() noexcept;

  /// Runs in the thread swml-beats-in. Ends with the heartbeat, or if a rank is gone for good.
  void receiveBeats();

  /// Runs in the thread swml-beats-out. Ends as receiveBeats() does.
  void sendBeats();

  void awaitBegin() EXCLUDES(mutex_);

  /// Waits for a message to or from another rank. Returns false if that rank is gone, or the
  /// heartbeat has ended.
  template <typename Function>
  bool transfer(PendingTransfer& message, const Function& start, int other);

  /// Notes that the connection of the rank has closed.
  void noteClosed(int rank);

  /// Wakes the sender: it sends the next beat at once.
  void wakeSender() EXCLUDES(mutex_);

  const int rank_;
  const int successor_;
  const int predecessor_;
  const Times times_;
  Ring ring_;
  Mutex mutex_;
  Condition changed_;
  State state_ GUARDED_BY(mutex_) = State::kMade;
  std::atomic<int> closed_{kNobody};    // first rank whose connection is known to have closed
  std::atomic<int> reported_{kNobody};  // silent rank that the predecessor has reported
  std::atomic<Clock::duration> receivedAt_{Clock::duration::zero()};
  std::atomic<Clock::duration> queriedAt_{Clock::duration::zero()};  // by silentRank()
  std::atomic<Clock::duration> resumedAt_{Clock::duration::zero()};  // after this process stopped
  Beat incoming_;                                                    // of the thread swml-beats-in
  Beat outgoing_;                                                    // of the thread swml-beats-out
  PendingTransfer receiving_;
  PendingTransfer sending_;
  std::thread receiver_;
  std::thread sender_;
};

}  // namespace switchml_delegate
