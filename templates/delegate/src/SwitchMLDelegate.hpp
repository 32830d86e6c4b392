/// The delegate of this process: its parts, and how failures and the ends of groups move them.
///
/// A failure is printed first, then the state shows it; then the other ranks are warned, and after
/// that the context is stopped, which wakes those that wait for it. No lock is held when Gloo is
/// called.
#pragma once

#include "join/SwitchMLGroups.hpp"
#include "join/SwitchMLJoining.hpp"
#include "join/SwitchMLSettings.hpp"
#include "recover/SwitchMLFailover.hpp"
#include "recover/SwitchMLHeartbeat.hpp"
#include "report/SwitchMLReport.hpp"
#include "sum/SwitchMLLibrary.hpp"
#include "sum/SwitchMLOrder.hpp"

namespace switchml_torch {

constexpr std::chrono::milliseconds kStopAfterFailure = std::chrono::seconds(1);
constexpr const char* kForked = "SwitchML was started before this process was forked";

enum Fallback : std::size_t { kGroup, kOp, kDtype, kTensors, kNumel, kFallbacks };
constexpr std::array<const char*, kFallbacks> kFallbackNames{"group", "op", "dtype", "tensors",
                                                             "numel"};

/// Settings of a delegating group. A value never changes.
struct Delegation {
  std::vector<const void*> contexts;
  Settings settings;
  std::chrono::milliseconds timeout;  // timeout of the group when it was made
  std::chrono::milliseconds longest;  // largest limit of a job
  std::uint16_t workers;
  bool marksOverflow;
  std::size_t rank;
  std::uint64_t firstSequence = 0;
  std::shared_ptr<Failover> failover;    // null where the group has none
  std::shared_ptr<Heartbeat> heartbeat;  // null where the library itself learns that a rank is gone

  bool owns(const void* context) const noexcept {
    return std::find(contexts.begin(), contexts.end(), context) != contexts.end();
  }

  /// Number of elements of a delegated allreduce that are sent in fewer bits.
  std::uint64_t quantizedNumel(const Request& request) const {
    return request.element == Element::kInt32 ? 0 : settings.quantization.numel(request.numel);
  }

  /// Number of jobs of it: the scales and the values in fewer bits, if there are any, and the parts
  /// of the rest.
  std::uint64_t jobsOf(const Request& request) const {
    const auto quantized = quantizedNumel(request);
    const auto rest = request.numel - quantized;
    const auto part = settings.chunkNumel;
    return (quantized == 0 ? 0 : 2) + rest / part + (rest % part == 0 ? 0 : 1);
  }
};

/// What all threads read without a lock. A forked child goes on with it.
struct Board {
  std::atomic<const Delegation*> delegation{nullptr};
  Newest<Delegation> delegations;
  Newest<Outcome> group;
  Newest<std::string> filled;
  Newest<metrics::Labels> labels;
  std::array<std::atomic<std::uint64_t>, kFallbacks> fallbacks{};
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> bytes{0};
  metrics::Times times;                  // of allreduces that SwitchML has summed
  std::atomic<std::uint64_t> waited{0};  // nanoseconds, for jobs of the library
  Failover::Counters failover;
};
extern Board board;

/// A forked child has one of its own: a thread of the parent may have held a lock of the parent's.
class Delegate {
 public:
  /// Never destroyed: works, and the library's threads, may outlive the destruction of statics.
  static Delegate& get();

  /// Starts the context; see Library::start().
  Capabilities start(const switchml::Config& config, std::chrono::milliseconds limit);

  /// All calls fail from here on, unless what has failed was of an earlier start of the context.
  void fail(const std::string& why, std::uint64_t epoch);
  void fail(const std::string& why) { fail(why, library.epoch()); }

  /// The job of this number will never be submitted.
  void abandon(std::uint64_t sequence) noexcept;

  /// The context is stopped, and its group goes on over Gloo.
  void suspend(const std::string& why);

  /// Throws the reason of a broken state.
  void throwIfBroken() const;

  /// Fails, and throws the reason: that of the first failure, where another was before.
  [[noreturn]] void raise(const std::string& why, std::uint64_t epoch);

  /// On rank 0, when the delegating group ends.
  void printHint(const Delegation& group);

  /// Whoever would return from the delegate when the process exits waits for its end: a thread
  /// that comes back to Python then ends the process with SIGABRT.
  struct Visit {
    ~Visit();
  };

  Library library;
  Groups groups;
  Order order;
  DelegationState state;
  Report report;
  std::atomic<bool> claimed{false};  // by a group that delegates, or may
  std::atomic<bool> joined{false};   // a group was made
  std::atomic<bool> warned{false};
  std::mutex claiming;  // of a group that looks whether it may

  // Of the group that has claimed it.
  std::unique_ptr<Descriptor> mark;  // by which child processes know that this one delegates
  struct {
    std::string controller;
    std::string why;
    Library::Clock::time_point time{};
  } unanswered;  // the newest question that took all of its time

 private:
  explicit Delegate(const Delegate* before);
  void disable(const std::string& why, std::uint64_t epoch, const std::function<void()>& report,
               void (Failover::*end)(const std::string&));
  static void atExit(int status, void* argument);
};

}  // namespace switchml_torch
