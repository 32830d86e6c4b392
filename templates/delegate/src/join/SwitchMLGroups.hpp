/// Process groups of this process: their numbers, and what they leave to Gloo while one delegates.
///
/// Ranks make groups of the same ranks in the same order, so these have the same numbers on all of
/// them. The members of a group are not known here; groups are compared by size and rank.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "base/SwitchMLText.hpp"

namespace switchml_torch {

class Groups {
 public:
  struct Group {
    std::vector<const void*> contexts;
    int rank;
    int size;
    std::uint64_t number = 0;  // among the groups of its size, from 1 on
    std::uint64_t bytes = 0;   // that it has left to Gloo
  };

  /// Adds a group. Returns its number.
  std::uint64_t add(Group group) {
    const std::lock_guard<std::mutex> lock(mutex_);
    group.number = ++made_[group.size];
    groups_.push_back(group);
    return group.number;
  }

  void remove(const void* context) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto found = find(context); found != groups_.end()) {
      groups_.erase(found);
    }
  }

  /// Counts anew from here on, where the group that owns `context` delegates. False if the group
  /// has been removed.
  bool begin(const void* context) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = find(context);
    if (found == groups_.end()) {
      return false;
    }
    for (auto& group : groups_) {
      group.bytes = 0;
    }
    busiest_ = delegating_ = *found;
    delegated_ = 0;
    return true;
  }

  /// Counts bytes of the delegating group. Lock-free.
  void countDelegated(std::uint64_t bytes) noexcept { delegated_ += bytes; }

  /// Counts bytes that the group that owns `context` leaves to Gloo.
  void countLeft(const void* context, std::uint64_t bytes) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = find(context);
    if (found == groups_.end()) {
      return;
    }
    found->bytes += bytes;
    if (found->size == delegating_.size && found->rank == delegating_.rank &&
        found->bytes > busiest_.bytes) {
      busiest_ = *found;
    }
  }

  /// Bytes that the busiest of the other groups of the same size and rank has left to Gloo.
  std::uint64_t left() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return busiest_.bytes;
  }

  /// Advice to let that group delegate; empty where the delegating one sums more.
  std::string hint() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return busiest_.bytes <= delegated_
               ? ""
               : text("group ", busiest_.number, " of ", busiest_.size, " ranks left ",
                      busiest_.bytes, " bytes to Gloo, and group ", delegating_.number, " gave ",
                      delegated_.load(),
                      " bytes to SwitchML; with SWITCHML_GROUP=", busiest_.number,
                      " on all ranks group ", busiest_.number, " delegates");
  }

 private:
  std::vector<Group>::iterator find(const void* context) {
    return std::find_if(groups_.begin(), groups_.end(), [context](const Group& group) {
      return std::find(group.contexts.begin(), group.contexts.end(), context) !=
             group.contexts.end();
    });
  }

  mutable std::mutex mutex_;
  std::map<int, std::uint64_t> made_;  // by size
  std::vector<Group> groups_;
  Group delegating_{};
  Group busiest_{};
  std::atomic<std::uint64_t> delegated_{0};
};

}  // namespace switchml_torch
