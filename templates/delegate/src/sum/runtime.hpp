/// The client library of this process, and the group that gives it jobs: how a failure and the end
/// of the group move both.
///
/// The state shows a failure first; then the other ranks are warned, and after that the context is
/// stopped, which wakes those that wait for it. At last the failure is printed. No lock is held
/// when Gloo is called or a line is printed. Without memory or a thread all of this is done too,
/// and only words are missing.
#pragma once

#include "base/delegation_state.hpp"
#include "base/say.hpp"
#include "join/settings.hpp"
#include "recover/failover.hpp"
#include "recover/heartbeat.hpp"
#include "sum/library.hpp"
#include "sum/order.hpp"

namespace switchml_delegate {

constexpr std::chrono::milliseconds kStopAfterFailure = std::chrono::seconds(1);
constexpr const char* kForked = "SwitchML was started before this process was forked";

using ExitHook = void (*)(int status, void* argument);  // of on_exit(3)

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

  /// Number of buckets that a job in fewer bits sums.
  std::uint64_t bucketsOfJob() const {
    const auto bucket = static_cast<std::uint64_t>(settings.quantization.bucket);
    return std::max<std::uint64_t>(settings.chunkNumel / bucket, 1);
  }

  /// Number of jobs of it: the scales and the parts in fewer bits, if there are any, and the parts
  /// of the rest.
  std::uint64_t jobsOf(const Request& request) const {
    const auto quantized = quantizedNumel(request);
    const auto bucket = static_cast<std::uint64_t>(settings.quantization.bucket);
    return (quantized == 0 ? 0 : 1 + parts(parts(quantized, bucket), bucketsOfJob())) +
           parts(request.numel - quantized, settings.chunkNumel);
  }

 private:
  static std::uint64_t parts(std::uint64_t whole, std::uint64_t part) {
    return whole / part + (whole % part == 0 ? 0 : 1);
  }
};

class Runtime {
 public:
  /// `before`: that of the process which this one was forked from, if there is one. Its locks may
  /// be held for ever.
  explicit Runtime(const Runtime* before)
      : library(before == nullptr ? nullptr : &before->library),
        state(before == nullptr ? nullptr : &before->state),
        waited(before == nullptr ? 0 : before->waited.load()),
        group_(before == nullptr ? nullptr : before->group()) {}

  /// The group that delegates, or null. It is never destroyed.
  const Delegation* group() const noexcept { return group_.load(std::memory_order_acquire); }

  /// The group that delegates, if it owns this context; else null.
  const Delegation* groupOf(const void* context) const noexcept {
    const auto* const found = group();
    return found != nullptr && found->owns(context) ? found : nullptr;
  }

  void begin(Delegation group) {
    groups_.set(std::move(group));
    group_.store(&groups_.get(), std::memory_order_release);
  }

  /// Called when a group is made. A context of it may have the address of one that the process had
  /// from which this one was forked, and that is no more.
  void disown(const std::vector<const void*>& contexts) noexcept {
    for (const auto* const context : contexts) {
      if (const auto* const inherited = groupOf(context); inherited != nullptr) {
        end(inherited);
      }
    }
  }

  /// Ends the delegation of `group`. False where it had ended.
  bool end(const Delegation* group) noexcept {
    return group_.compare_exchange_strong(group, nullptr);
  }

  /// All calls fail from here on, unless what has failed was of an earlier start of the context.
  void fail(const std::string& why, std::uint64_t epoch) noexcept {
    if (epoch != library.epoch()) {
      return;
    }
    if (disable(why, epoch, &Failover::abort)) {
      quietly([&] {
        const auto counted = library.packets().words();
        say(text("error: ", why, counted.empty() ? "" : " (" + counted + ")",
                 "; this rank no longer uses SwitchML"));
      });
    }
  }
  void fail(const std::string& why) noexcept { fail(why, library.epoch()); }

  /// The job of this number will never be submitted.
  void abandon(std::uint64_t sequence) noexcept {
    const auto* const found = group();
    if (found != nullptr && sequence >= found->firstSequence) {
      fail(textOrNone([sequence] {
        return text("allreduce number ", sequence, " was dropped before it was submitted");
      }));
    }
  }

  /// The context is stopped, and its group goes on over Gloo.
  void suspend(const std::string& why) noexcept {
    state.suspend(why);
    library.stop(library.epoch());
  }

  /// All calls fail from here on; nothing is printed, and no other rank is warned.
  void close(const std::string& why) noexcept {
    disable(why, library.epoch(), &Failover::close);
    if (const auto* const found = group(); found != nullptr && found->heartbeat) {
      found->heartbeat->close();
    }
  }

  void throwIfBroken() const {
    if (state.broken()) {
      throw std::runtime_error(kAllreduceFailed + state.get().why);
    }
  }

  /// Fails, and throws the reason: that of the first failure, where another was before.
  [[noreturn]] void raise(const std::string& why, std::uint64_t epoch) {
    fail(why, epoch);
    throwIfBroken();
    throw std::runtime_error(kAllreduceFailed + why);  // of an earlier group
  }

  Library library;
  Order order;
  DelegationState state;
  std::atomic<std::uint64_t> waited;  // nanoseconds, for jobs of the group

 private:
  /// `end` comes before the stop, which wakes those that wait for the library: their reason would
  /// be another. False if all calls have failed before.
  bool disable(const std::string& why, std::uint64_t epoch,
               void (Failover::*end)(const std::string&)) noexcept {
    const bool first = state.fail(why);
    const auto* const found = group();
    if (found != nullptr && found->failover && !library.lost()) {
      ((*found->failover).*end)(why);
    }
    if (first) {
      library.stop(epoch);
      order.wake();
    }
    return first;
  }

  std::atomic<const Delegation*> group_;
  AtomicSnapshot<Delegation> groups_;
};

}  // namespace switchml_delegate
