#include "recover/heartbeat.hpp"

#include "base/thread.hpp"

namespace switchml_delegate {

Heartbeat::Heartbeat(Ring ring, int rank, int size, Times times)
    : rank_(rank),
      successor_((rank + 1) % size),
      predecessor_((rank + size - 1) % size),
      times_(times),
      ring_(std::move(ring)) {
  try {
    receiver_ = startThread("swml-beats-in", [this] { receiveBeats(); });
    sender_ = startThread("swml-beats-out", [this] { sendBeats(); });
  } catch (...) {
    leave();
    throw;
  }
}

Heartbeat::~Heartbeat() { leave(); }

void Heartbeat::begin() noexcept {
  const MutexLock lock(mutex_);
  receivedAt_ = now();
  state_ = state_ == State::kMade ? State::kBeating : state_;
  changed_.notify_all();
}

int Heartbeat::gone() noexcept {
  const auto closed = closed_.load(std::memory_order_acquire);
  return closed == kNobody ? silentRank() : closed;
}

void Heartbeat::close() noexcept {
  {
    const MutexLock lock(mutex_);
    state_ = State::kEnded;
  }
  changed_.notify_all();
  receiving_.abort();
  sending_.abort();
}

void Heartbeat::leave() noexcept {
  close();
  for (auto* const thread : {&receiver_, &sender_}) {
    if (thread->joinable()) {
      thread->join();
    }
  }
  receiving_.end();
  sending_.end();
  ring_ = {};
}

int Heartbeat::silentRank() noexcept {
  const auto time = now();
  if (time - queriedAt_.load(std::memory_order_acquire) > times_.silence / 6) {
    resumedAt_.store(time, std::memory_order_release);
  }
  queriedAt_.store(time, std::memory_order_release);
  if (time - receivedAt_.load(std::memory_order_acquire) <= times_.silence) {
    return reported_.load(std::memory_order_acquire);
  }
  const auto awake = time - resumedAt_.load(std::memory_order_acquire);
  return awake <= times_.silence ? kNobody : predecessor_;
}

void Heartbeat::receiveBeats() {
  awaitBegin();
  const auto receive = [this] { return ring_.receive(kHeartbeats, &incoming_, sizeof incoming_); };
  while (incoming_.closed == 0 && transfer(receiving_, receive, predecessor_)) {
    const int gone = incoming_.gone == rank_ ? kNobody : incoming_.gone;
    if (incoming_.closed != 0) {
      noteClosed(incoming_.gone);
    } else if (reported_.exchange(gone) != gone) {
      wakeSender();
    }
    receivedAt_.store(now(), std::memory_order_release);
  }
}

void Heartbeat::sendBeats() {
  awaitBegin();
  const auto send = [this] { return ring_.send(kHeartbeats, &outgoing_, sizeof outgoing_); };
  while (outgoing_.closed == 0) {
    const auto due = Clock::now() + times_.beat;
    const auto closed = closed_.load(std::memory_order_acquire);
    const auto reported = reported_.load(std::memory_order_acquire);
    outgoing_ = closed == kNobody ? Beat{silentRank(), 0} : Beat{closed, 1};
    if (!transfer(sending_, send, successor_)) {
      return;
    }
    MutexLock lock(mutex_);
    changed_.wait_until(lock, due, [&]() REQUIRES(mutex_) {
      return state_ == State::kEnded || closed_ != closed || reported_ != reported;
    });
  }
}

void Heartbeat::awaitBegin() {
  MutexLock lock(mutex_);
  changed_.wait(lock, [this]() REQUIRES(mutex_) { return state_ != State::kMade; });
}

template <typename Function>
bool Heartbeat::transfer(PendingTransfer& message, const Function& start, int other) {
  try {
    message.begin(start);
    return message.wait();
  } catch (const std::exception&) {
    noteClosed(other);
    return false;
  }
}

void Heartbeat::noteClosed(int rank) {
  int nobody = kNobody;
  if (closed_.compare_exchange_strong(nobody, rank)) {
    wakeSender();
  }
}

void Heartbeat::wakeSender() {
  const MutexLock lock(mutex_);
  changed_.notify_all();
}

}  // namespace switchml_delegate
