// Connections of ranks to their neighbours in a ring, which are made up.
#pragma once

#include <algorithm>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "SwitchMLAllreduce.hpp"
#include "check.hpp"

namespace wires {

using std::chrono::milliseconds;
using switchml_delegate::Ring;
using switchml_delegate::Transfer;

/// Messages from each rank to its successor. As with Gloo, a message is written to the memory of a
/// transfer as soon as it arrives, until that transfer is destroyed, and it is sent when it has
/// arrived. An abort interrupts one wait, even if the message has arrived. Nothing begins over a
/// connection that has closed.
class Wires {
 public:
  explicit Wires(int size) : size_(size), cut_(static_cast<std::size_t>(size), false) {}

  Ring of(int rank) {
    return {[this, rank](unsigned channel, const void* data, std::size_t bytes) {
              std::lock_guard<std::mutex> lock(mutex_);
              const auto to = (rank + 1) % size_;
              checkNeighbour(to);
              const auto* const begin = static_cast<const char*>(data);
              const auto message = std::make_shared<Message>(begin, bytes);
              message->channel = channel;
              auto& lane = lanes_[{rank, channel}];
              if (!silent_) {
                lane.messages.push_back(message);
                deliver(rank, lane);
              }
              return Transfer{[=](milliseconds limit) { return awaitCome(*message, to, limit); },
                              [=] { abort(*message); }};
            },
            [this, rank](unsigned channel, void* data, std::size_t bytes) {
              const auto from = (rank + size_ - 1) % size_;
              {
                const std::lock_guard<std::mutex> lock(mutex_);
                checkNeighbour(from);
              }
              const auto buffer = std::make_shared<Buffer>(*this, from, channel, data, bytes);
              return Transfer{[=](milliseconds limit) { return awaitCome(*buffer, from, limit); },
                              [=] { abort(*buffer); }};
            }};
  }

  /// Delays the end of each wait for a message by a time.
  void lag(milliseconds time) {
    const std::lock_guard<std::mutex> lock(mutex_);
    lag_ = time;
  }

  /// Called when a message of this thread has arrived.
  static inline thread_local std::function<void()> onArrival;

  /// Loses all later messages, and reports no error.
  void silence() {
    std::lock_guard<std::mutex> lock(mutex_);
    silent_ = true;
  }

  /// Holds back the messages of a rank, until another rank is named; -1: none.
  void mute(int rank) {
    std::lock_guard<std::mutex> lock(mutex_);
    muted_ = rank;
    for (auto& [place, lane] : lanes_) {
      deliver(place.first, lane);
    }
  }

  /// Closes the connections of a rank. Half of each message that waits on the channel `half` has
  /// been transferred, so its wait does not end.
  void cut(int rank, unsigned half = UINT_MAX) {
    std::lock_guard<std::mutex> lock(mutex_);
    cut_[static_cast<std::size_t>(rank)] = true;
    half_ = half;
    changed_.notify_all();
  }

 private:
  struct Part {
    unsigned channel = 0;
    bool come = false;
    bool aborted = false;
  };
  struct Message : Part {
    Message(const char* begin, std::size_t size) : bytes(begin, begin + size) {}
    const std::vector<char> bytes;
  };
  struct Buffer;
  struct Lane {
    std::deque<std::shared_ptr<Message>> messages;
    std::deque<Buffer*> buffers;
  };
  struct Buffer : Part {
    Buffer(Wires& all, int sender, unsigned place, void* memory, std::size_t size)
        : wires(all), lane(all.laneOf(sender, place)), data(memory), bytes(size) {
      channel = place;
      std::lock_guard<std::mutex> lock(wires.mutex_);
      lane.buffers.push_back(this);
      wires.deliver(sender, lane);
    }
    ~Buffer() {
      std::lock_guard<std::mutex> lock(wires.mutex_);
      auto& all = lane.buffers;
      all.erase(std::remove(all.begin(), all.end(), this), all.end());
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    Wires& wires;
    Lane& lane;
    void* const data;
    const std::size_t bytes;
  };

  Lane& laneOf(int from, unsigned channel) {
    std::lock_guard<std::mutex> lock(mutex_);
    return lanes_[{from, channel}];
  }

  void checkNeighbour(int rank) const {
    if (cut_[static_cast<std::size_t>(rank)]) {
      throw std::runtime_error("connection closed by peer");
    }
  }

  void deliver(int from, Lane& lane) {
    while (from != muted_ && !lane.messages.empty() && !lane.buffers.empty()) {
      auto& message = *lane.messages.front();
      auto& buffer = *lane.buffers.front();
      check(message.bytes.size() == buffer.bytes, "a message of the size that is expected");
      std::memcpy(buffer.data, message.bytes.data(), buffer.bytes);
      message.come = buffer.come = true;
      lane.messages.pop_front();
      lane.buffers.pop_front();
    }
    changed_.notify_all();
  }

  /// `other`: the rank at the other end.
  bool awaitCome(Part& part, int other, milliseconds limit) {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool there = changed_.wait_for(lock, limit, [&] {
      return part.aborted || part.come ||
             (cut_[static_cast<std::size_t>(other)] && part.channel != half_);
    });
    if (!there) {
      throw std::runtime_error("timed out");
    }
    if (lag_ > lag_.zero()) {
      const auto lag = lag_;
      lock.unlock();
      std::this_thread::sleep_for(lag);
      lock.lock();
    }
    if (part.aborted) {
      part.aborted = false;
      return false;
    }
    if (!part.come) {
      checkNeighbour(other);
    }
    lock.unlock();
    if (onArrival) {
      onArrival();
    }
    return true;
  }

  void abort(Part& part) {
    std::lock_guard<std::mutex> lock(mutex_);
    part.aborted = true;
    changed_.notify_all();
  }

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, unsigned>, Lane> lanes_;
  std::vector<bool> cut_;
  bool silent_ = false;
  unsigned half_ = UINT_MAX;
  milliseconds lag_{0};
  int muted_ = -1;
};

}  // namespace wires
