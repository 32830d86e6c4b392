/// Election of the process group that delegates, among groups of the same ranks: the first to sum.
///
/// The group for which the context was started holds it. Groups of the same ranks that are made
/// before it sums are candidates. The first large allreduce of a candidate, or any of the holder
/// that would be delegated, is a rank's vote. A candidate takes the context over where all ranks
/// vote for it; else the holder keeps it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace switchml_torch {

class Election {
 public:
  struct Group {
    std::vector<const void*> contexts;
    std::chrono::milliseconds timeout{0};
    std::string name;  // the same on all ranks

    bool owns(const void* context) const noexcept {
      return std::find(contexts.begin(), contexts.end(), context) != contexts.end();
    }
  };
  using Values = std::vector<std::int32_t>;

  /// What an election does outside. `sum` replaces values by the sums over all ranks, in the first
  /// jobs of the context after those of the agreement. `handOn` moves the context.
  struct Actions {
    std::function<void(Values&, std::chrono::milliseconds limit)> sum;
    std::function<void(const Group&)> handOn;
  };

  /// A new group between its nomination and the answers of all ranks, for which calls wait.
  class Nomination {
   public:
    /// `holder`: the name that the ranks have agreed on.
    Nomination(Election& election, std::string holder);
    ~Nomination();
    Nomination(const Nomination&) = delete;
    Nomination& operator=(const Nomination&) = delete;

    /// False where the holder sums or has ended.
    bool stands() const noexcept { return stands_; }

    /// Called where the nomination stands on all ranks.
    void accept(Group candidate);

   private:
    Election& election_;
    const std::string holder_;
    bool stands_;
  };

  /// Elements of a candidate's allreduce that is a vote, at least: frameworks sum flags and
  /// counts in groups in which they do not train.
  static constexpr std::uint64_t kLarge = 1024;

  /// Called before the `size` ranks of the holder use the context.
  void begin(Group holder, int size, Actions actions);

  /// True until the context has its group, or that has ended. Lock-free.
  bool open() const noexcept { return open_; }

  /// Name of the holder, for which a new group may be nominated; empty where none may.
  std::string holder();

  /// True where the group that owns `context` is a candidate. Lock-free where there is none.
  bool has(const void* context);

  /// Votes with an allreduce of the group that owns `context`, and returns when the election has
  /// ended: when all ranks have voted, where there are candidates. Throws what `sum` throws; the
  /// election is open then as before.
  void vote(const void* context, std::uint64_t numel);

  /// True while a call of the group that owns `context` waits for the votes of the other ranks.
  bool votes(const void* context);

  /// The group that owns `context` ends, once no vote is under way.
  void leave(const void* context);

 private:
  class Vote;

  std::vector<Group>::iterator find(const void* context);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> open_{false};
  std::atomic<bool> contested_{false};  // there are candidates
  bool voting_ = false;                 // the candidates stay as they are
  const void* voter_ = nullptr;
  unsigned pending_ = 0;  // nominations
  int size_ = 0;
  Group holder_;
  std::vector<Group> candidates_;  // one that has ended owns no context
  Actions actions_;
};

}  // namespace switchml_torch
