// The delegate of this process: one instance of each part, behind the interface.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>

#include "SwitchMLInterface.hpp"
#include "base/forever.hpp"
#include "base/quietly.hpp"
#include "base/shutdown.hpp"
#include "base/text.hpp"
#include "joining.hpp"
#include "report/report.hpp"
#include "sum/reduction.hpp"
#include "sum/runtime.hpp"

namespace switchml_delegate {
namespace {

Shutdown::Participant* toEnd() noexcept;

// Never destroyed: threads may outlive the destruction of statics. A forked child goes on with
// them.
Statistics& statistics = *new Statistics;
Shutdown& processShutdown = *new Shutdown(toEnd);

/// The parts of a process that have locks. A forked child has parts of its own, since a thread of
/// its parent may have held a lock. Any thread uses it; the thread that exits calls the functions
/// of Participant.
struct Process final : public Shutdown::Participant {
  explicit Process(const Process* parent)
      : runtime(parent == nullptr ? nullptr : &parent->runtime) {}

  std::uint64_t nextSequence() noexcept override { return runtime.order.next(); }
  void writeLastMetrics(std::chrono::milliseconds limit) noexcept override { report.end(limit); }
  bool ownsContext() noexcept override { return !runtime.library.lost(); }
  bool stop(std::chrono::milliseconds limit) noexcept override {
    runtime.close(textOrOutOfMemory([] { return "the process is exiting"; }));
    return runtime.library.retire(limit);
  }

  Runtime runtime;
  Groups groups;
  JoinState joinState;
  Report report{runtime, statistics, processShutdown};
};

std::atomic<Process*> newest{nullptr};
std::atomic<Process*> parent{nullptr};  // of the process from which this one was forked

[[maybe_unused]] const int forks = pthread_atfork(nullptr, nullptr, [] {
  if (auto* const inherited = newest.exchange(nullptr); inherited != nullptr) {
    parent = inherited;
  }
});

/// Never destroyed: calls, and the library's threads, may outlive the destruction of statics.
/// Throws std::bad_alloc in a forked child without memory; another process made its own when the
/// library was opened.
Process& process() {
  auto* found = newest.load(std::memory_order_acquire);
  if (found == nullptr) {
    auto made = std::make_unique<Process>(parent);
    if (newest.compare_exchange_strong(found, made.get())) {
      found = made.release();
    }
  }
  return *found;
}

/// For functions that cannot throw: null in a forked child without memory. Such a child has nothing
/// to end, and its calls throw.
Process* ownProcess() noexcept {
  Process* own = nullptr;
  quietly([&own] { own = &process(); });
  return own;
}

Shutdown::Participant* toEnd() noexcept { return ownProcess(); }

/// The interface, which torch calls: threads of the program make, leave and abort groups, and take
/// sequence numbers; threads of Gloo's process group, or of the plugin, reduce.
class DelegateImpl final : public Interface {
 public:
  bool delegates(const void* context) const noexcept override {
    const auto* const own = ownProcess();
    return own != nullptr && own->runtime.groupOf(context) != nullptr;
  }

  std::uint64_t takeSequence(const void* context, const Request& request) noexcept override {
    auto* const found = ownProcess();
    if (found == nullptr) {
      return 0;  // so that reduce() throws
    }
    auto& own = *found;
    const auto* const group = own.runtime.group();
    const bool owns = group != nullptr && group->owns(context);
    const auto fallback = fallbackOf(group, request);
    if (!fallback) {
      if (owns) {
        return own.runtime.order.take(group->jobsOf(request));
      }
      statistics.otherGroupBytes += sizeof(float) * request.numel;
    }
    ++statistics.fallbacks[owns ? *fallback : kGroup];
    return kNoSequence;
  }

  std::uint64_t partNumel() const noexcept override {
    const auto* const own = ownProcess();
    const auto* const group = own == nullptr ? nullptr : own->runtime.group();
    return group == nullptr ? UINT64_MAX : group->settings.chunkNumel;
  }

  void reduce(std::uint64_t sequence, const Request& request, std::chrono::milliseconds limit,
              const PartCallbacks& callbacks) override {
    const auto barrier = processShutdown.barrier(sequence);
    auto& own = process();
    if (own.runtime.library.lost()) {
      throw std::runtime_error(kForked);
    }
    const auto* const group = own.runtime.group();
    if (group == nullptr || sequence < group->firstSequence) {
      throw std::runtime_error("the process group of this allreduce has ended");
    }
    const auto begun = Library::Clock::now();
    const auto timeout = std::min(limit > limit.zero() ? limit : group->timeout, kForever);
    const auto result = sumOverRanks(own.runtime, *group, sequence, request,
                                     {std::min(timeout, group->longest), timeout}, callbacks);
    if (result.redone) {
      ++statistics.failover.calls;
      return;
    }
    ++statistics.calls;
    statistics.bytes += result.bytes;
    statistics.times.add(Library::Clock::now() - begun);
  }

  void abandon(std::uint64_t sequence) noexcept override {
    if (auto* const own = ownProcess(); own != nullptr) {
      own->runtime.abandon(sequence);
    }
  }

  void join(const std::vector<const void*>& contexts, int rank, int size,
            std::chrono::milliseconds timeout, const Exchange& exchange) override {
    const auto barrier = processShutdown.barrier();
    auto& own = process();
    own.runtime.disown(contexts);
    try {
      joinRanks({own.runtime, own.groups, own.joinState, statistics, own.report, processShutdown},
                contexts, rank, size, timeout, exchange);
    } catch (...) {
      leave(contexts.empty() ? nullptr : contexts[0]);
      throw;
    }
  }

  void leave(const void* context) noexcept override {
    const auto barrier = processShutdown.barrier();
    auto* const found = ownProcess();
    if (found == nullptr) {
      return;
    }
    auto& own = *found;
    own.groups.remove(context);
    const auto* const group = own.runtime.groupOf(context);
    if (group == nullptr || !own.runtime.end(group)) {
      return;
    }
    own.joinState.reservation.end();
    if (!own.runtime.library.lost()) {
      if (group->failover) {
        group->failover->leave();
      }
      if (group->heartbeat) {
        group->heartbeat->leave();
      }
    }
    own.joinState.name.reset();
    // Not earlier: until here a warning of another rank could have stopped the context of a new
    // group.
    own.joinState.reservation.release();
    own.report.wake();
  }

  void abort(const void* context) noexcept override {
    const auto barrier = processShutdown.barrier();
    auto* const own = ownProcess();
    if (own == nullptr) {
      return;
    }
    auto& runtime = own->runtime;
    const auto epoch = runtime.library.epoch();  // of this group, or of one before it
    if (runtime.groupOf(context) != nullptr) {
      runtime.fail(textOrOutOfMemory([] { return kGroupAborted; }), epoch);
    }
  }

  std::size_t report(char* buffer, std::size_t capacity) const override {
    return copyText(process().report.json(), buffer, capacity);
  }

 private:
  /// Condition that a call does not meet, so that it falls back to Gloo; none if it meets all.
  /// `group` delegates, or is null.
  static std::optional<Fallback> fallbackOf(const Delegation* group,
                                            const Request& request) noexcept {
    if (group == nullptr) {
      return kGroup;
    }
    const auto& settings = group->settings;
    // Gloo has no average of integers either: it throws.
    const bool integers = request.element == Element::kInt32 && request.op == Op::kAvg;
    if (request.tensors != 1) {
      return kTensors;
    }
    if (!settings.ops.has(request.op) || integers) {
      return kOp;
    }
    if (!settings.dtypes.has(request.element)) {
      return kDtype;
    }
    return request.numel < settings.minNumel ? std::optional(kNumel) : std::nullopt;
  }
};

}  // namespace
}  // namespace switchml_delegate

switchml_delegate::Interface* switchml_delegate_interface(const char* digest) {
  static auto* const delegate = new switchml_delegate::DelegateImpl;
  switchml_delegate::process();
  return std::strcmp(digest, SWITCHML_DELEGATE_DIGEST) == 0 ? delegate : nullptr;
}
