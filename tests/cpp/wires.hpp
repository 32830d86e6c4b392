// Connections of ranks to their neighbours in a ring, which are made up.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "SwitchMLAllreduce.hpp"

namespace wires {

using std::chrono::milliseconds;
using switchml_torch::Ring;
using switchml_torch::Transfer;

inline void check(bool fact, const std::string& what) {
  if (!fact) {
    std::fprintf(stderr, "FAILED: %s\n", what.c_str());
    std::fflush(nullptr);
    std::_Exit(1);
  }
}

/// Messages from each rank to the next one. As Gloo does, they bring a message to the memory of a
/// transfer as soon as it comes, until that transfer is destroyed.
class Wires {
 public:
  explicit Wires(int size) : size_(size), cut_(static_cast<std::size_t>(size), false) {}

  Ring of(int rank) {
    return {[this, rank](unsigned channel, const void* data, std::size_t bytes) {
              std::lock_guard<std::mutex> lock(mutex_);
              checkNeighbour((rank + 1) % size_);
              const auto* const begin = static_cast<const char*>(data);
              auto& lane = lanes_[{rank, channel}];
              if (!silent_ && muted_ != rank) {
                lane.messages.emplace_back(begin, begin + bytes);
                deliver(lane);
              }
              return Transfer{[](milliseconds /*limit*/) { return true; }, [] {}};
            },
            [this, rank](unsigned channel, void* data, std::size_t bytes) {
              const auto from = (rank + size_ - 1) % size_;
              const auto buffer = std::make_shared<Buffer>(*this, from, channel, data, bytes);
              return Transfer{[=](milliseconds limit) { return receive(*buffer, limit); },
                              [=] {
                                std::lock_guard<std::mutex> lock(mutex_);
                                buffer->aborted = true;
                                changed_.notify_all();
                              }};
            }};
  }

  /// Loses all messages from here on, and nobody is told.
  void silence() {
    std::lock_guard<std::mutex> lock(mutex_);
    silent_ = true;
  }

  /// Loses what the rank sends, until another one is named: -1 for none.
  void mute(int rank) {
    std::lock_guard<std::mutex> lock(mutex_);
    muted_ = rank;
  }

  void cut(int rank) {
    std::lock_guard<std::mutex> lock(mutex_);
    cut_[static_cast<std::size_t>(rank)] = true;
    changed_.notify_all();
  }

 private:
  struct Buffer;
  struct Lane {
    std::deque<std::vector<char>> messages;
    std::deque<Buffer*> buffers;
  };
  struct Buffer {
    Buffer(Wires& all, int sender, unsigned channel, void* memory, std::size_t size)
        : wires(all), from(sender), lane(all.laneOf(sender, channel)), data(memory), bytes(size) {
      std::lock_guard<std::mutex> lock(wires.mutex_);
      lane.buffers.push_back(this);
      wires.deliver(lane);
    }
    ~Buffer() {
      std::lock_guard<std::mutex> lock(wires.mutex_);
      auto& all = lane.buffers;
      all.erase(std::remove(all.begin(), all.end(), this), all.end());
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    Wires& wires;
    const int from;
    Lane& lane;
    void* const data;
    const std::size_t bytes;
    bool arrived = false;
    bool aborted = false;
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

  void deliver(Lane& lane) {
    while (!lane.messages.empty() && !lane.buffers.empty()) {
      const auto& message = lane.messages.front();
      auto& buffer = *lane.buffers.front();
      check(message.size() == buffer.bytes, "a message of the size that is expected");
      std::memcpy(buffer.data, message.data(), buffer.bytes);
      buffer.arrived = true;
      lane.messages.pop_front();
      lane.buffers.pop_front();
    }
    changed_.notify_all();
  }

  bool receive(const Buffer& buffer, milliseconds limit) {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool there = changed_.wait_for(lock, limit, [&] {
      return buffer.aborted || buffer.arrived || cut_[static_cast<std::size_t>(buffer.from)];
    });
    if (!there) {
      throw std::runtime_error("timed out");
    }
    if (buffer.aborted) {
      return false;
    }
    if (!buffer.arrived) {
      checkNeighbour(buffer.from);
    }
    return true;
  }

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, unsigned>, Lane> lanes_;
  std::vector<bool> cut_;
  bool silent_ = false;
  int muted_ = -1;
};

}  // namespace wires
