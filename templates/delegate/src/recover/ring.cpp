#include "recover/ring.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/thread.hpp"

namespace switchml_delegate {
namespace {

float elementSum(float one, float other) { return one + other; }

/// Wraps around, as SwitchML does.
std::int32_t elementSum(std::int32_t one, std::int32_t other) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(one) +
                                   static_cast<std::uint32_t>(other));
}

}  // namespace

RingCollectives::RingCollectives(Ring ring, unsigned channel, int rank, int size)
    : ring_(std::move(ring)),
      channel_(channel),
      rank_(static_cast<std::size_t>(rank)),
      size_(static_cast<std::size_t>(size)),
      thread_(startThread("swml-ring", [this] { watchDeadline(); })) {}

RingCollectives::~RingCollectives() { release(); }

void RingCollectives::connect(Milliseconds limit) {
  char out = 0;
  char in = 0;
  exchange({&out, sizeof out}, {&in, sizeof in}, limit, 0);
}

void RingCollectives::sum(float* values, std::uint64_t numel, Milliseconds limit) {
  sumValues(values, numel, limit);
}

void RingCollectives::sum(std::int32_t* values, std::uint64_t numel, Milliseconds limit) {
  sumValues(values, numel, limit);
}

template <typename Value>
void RingCollectives::sumValues(Value* values, std::uint64_t numel, Milliseconds limit) {
  const auto begin = [&](std::size_t piece) {
    return numel / size_ * piece + std::min<std::uint64_t>(numel % size_, piece);
  };
  const auto bufferOf = [&](std::size_t piece) {
    return Buffer{values + begin(piece), (begin(piece + 1) - begin(piece)) * sizeof(Value)};
  };
  std::vector<Value> received(begin(1));
  for (std::size_t step = 0; step + 1 < size_; ++step) {
    const auto piece = behind(step + 1);
    const auto bytes = bufferOf(piece).bytes;
    exchange(bufferOf(behind(step)), {received.data(), bytes}, limit, step);
    auto* const sums = values + begin(piece);
    std::transform(sums, sums + bytes / sizeof(Value), received.begin(), sums,
                   [](Value one, Value other) { return elementSum(one, other); });
  }
  for (std::size_t step = size_ - 1; step + 2 < 2 * size_; ++step) {
    exchange(bufferOf(behind(step)), bufferOf(behind(step + 1)), limit, step);
  }
}

void RingCollectives::broadcast(std::size_t root, void* data, std::size_t bytes,
                                Milliseconds limit) {
  const auto step = (rank_ + size_ - root) % size_;
  if (rank_ != root) {
    exchange({}, {data, bytes}, limit, step);
  }
  if (successor() != root) {
    exchange({data, bytes}, {}, limit, step);
  }
}

void RingCollectives::gatherBytes(void* all, std::size_t bytes, Milliseconds limit) {
  const auto entryOf = [&](std::size_t rank) {
    return Buffer{static_cast<char*>(all) + rank * bytes, bytes};
  };
  for (std::size_t step = 0; step + 1 < size_; ++step) {
    exchange(entryOf(behind(step)), entryOf(behind(step + 1)), limit, step);
  }
}

void RingCollectives::losePredecessor() noexcept { close(in_); }

void RingCollectives::abort() noexcept {
  aborted_ = true;
  in_.transfer.abort();
  out_.transfer.abort();
}

void RingCollectives::release() noexcept {
  abort();
  MutexLock lock(mutex_);
  released_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this]() REQUIRES(mutex_) { return !exchanging_; });
  lock.unlock();
  if (thread_.joinable()) {
    thread_.join();
  }
  ring_ = {};
}

/// Keeps the connections from release() during an exchange.
class RingCollectives::ExchangeInProgress {
 public:
  explicit ExchangeInProgress(RingCollectives& ring) : ring_(ring) { ring_.beginExchange(); }
  ~ExchangeInProgress() { ring_.endExchange(); }
  ExchangeInProgress(const ExchangeInProgress&) = delete;
  ExchangeInProgress& operator=(const ExchangeInProgress&) = delete;

 private:
  RingCollectives& ring_;
};

void RingCollectives::beginExchange() {
  const MutexLock lock(mutex_);
  if (released_) {
    throw std::runtime_error("the connections are released");
  }
  exchanging_ = true;
}

void RingCollectives::endExchange() noexcept {
  in_.transfer.end();
  out_.transfer.end();
  const MutexLock lock(mutex_);
  exchanging_ = false;
  deadline_ = kNever;
  if (released_) {
    changed_.notify_all();
  }
}

void RingCollectives::exchange(Buffer out, Buffer in, Milliseconds limit, std::size_t step) {
  const auto deadline = Clock::now() + limit + static_cast<Milliseconds::rep>(step) * kHopLimit;
  const ExchangeInProgress inProgress(*this);
  if (in.bytes != 0) {
    in_.transfer.begin([&] { return ring_.receive(channel_, in.data, in.bytes); });
  }
  if (out.bytes != 0) {
    out_.transfer.begin([&] { return ring_.send(channel_, out.data, out.bytes); });
  }
  try {
    await(in_, predecessor(), deadline);
  } catch (const std::exception&) {
    // Gloo sends no more messages to a rank after half of one, so the successor would not receive
    // the warning that says why this rank throws.
    try {
      await(out_, successor(), Clock::now() + kHopLimit);
    } catch (const std::exception&) {  // the successor is gone as well
    }
    throw;
  }
  await(out_, successor(), deadline);
}

void RingCollectives::await(Direction& direction, std::size_t rank, Clock::time_point deadline) {
  try {
    for (setDeadline(deadline); !direction.transfer.wait(); setDeadline(deadline)) {
      const auto now = Clock::now();
      if (aborted_ || now >= deadline) {
        throw std::runtime_error(direction.closed ? "its connection has closed" : "no answer came");
      }
      // The message may have arrived before the connection closed.
      deadline = direction.closed ? std::min(deadline, now + kPollInterval) : deadline;
    }
  } catch (const std::exception& error) {
    throw std::runtime_error(goneText(rank, error.what()));
  }
}

void RingCollectives::setDeadline(Clock::time_point deadline) {
  const MutexLock lock(mutex_);
  deadline_ = deadline;
  if (deadline_ < wakesAt_) {
    changed_.notify_all();
  }
}

void RingCollectives::watchDeadline() {
  MutexLock lock(mutex_);
  while (!released_) {
    wakesAt_ = kNever;
    changed_.wait(lock, [this]() REQUIRES(mutex_) { return deadline_ != kNever || released_; });
    wakesAt_ = std::min(deadline_, Clock::now() + kPollInterval);
    const bool sooner = changed_.wait_until(
        lock, wakesAt_, [this]() REQUIRES(mutex_) { return deadline_ < wakesAt_ || released_; });
    if (sooner || deadline_ == kNever) {
      continue;
    }
    const bool late = Clock::now() >= deadline_;
    // The thread that waits sets another deadline when it notices the interrupt.
    deadline_ = late ? Clock::now() + kPollInterval : deadline_;
    lock.unlock();
    if (late) {
      in_.transfer.interrupt();
      out_.transfer.interrupt();
    } else {
      pollSuccessor();
    }
    lock.lock();
  }
}

void RingCollectives::pollSuccessor() noexcept {
  try {
    ring_.send(kPolls, &polled_, sizeof polled_);
  } catch (const std::exception&) {
    close(out_);
  }
}

void RingCollectives::close(Direction& direction) noexcept {
  direction.closed = true;
  direction.transfer.interrupt();
}

}  // namespace switchml_delegate
