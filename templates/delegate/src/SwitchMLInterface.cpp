#include "SwitchMLInterface.hpp"

#include "sum/SwitchMLReduction.hpp"

namespace switchml_torch {
namespace {

/// The group that delegates, if it owns this context; else null.
const Delegation* groupOf(const void* context) noexcept {
  const auto* const group = board.delegation.load(std::memory_order_acquire);
  return group != nullptr && group->owns(context) ? group : nullptr;
}

class Face final : public Interface {
 public:
  bool delegates(const void* context) const noexcept override {
    return groupOf(context) != nullptr;
  }

  std::uint64_t takeSequence(const void* context, const Request& request) noexcept override {
    const auto* const group = board.delegation.load(std::memory_order_acquire);
    const bool owns = group != nullptr && group->owns(context);
    // Gloo has no average of integers either: it raises.
    const bool integers = request.element == Element::kInt32 && request.op == Op::kAvg;
    auto why = group == nullptr                                   ? kGroup
               : request.tensors != 1                             ? kTensors
               : !group->settings.ops.has(request.op) || integers ? kOp
               : !group->settings.dtypes.has(request.element)     ? kDtype
               : request.numel < group->settings.minNumel         ? kNumel
                                                                  : kFallbacks;
    if (why == kFallbacks) {
      auto& delegate = Delegate::get();
      const auto bytes = sizeof(float) * request.numel;
      if (owns) {
        delegate.groups.countDelegated(bytes);
        return delegate.order.take(group->jobsOf(request));
      }
      delegate.groups.countLeft(context, bytes);
    }
    board.fallbacks[owns ? why : kGroup].fetch_add(1, std::memory_order_relaxed);
    return kNoSequence;
  }

  std::uint64_t partNumel() const noexcept override {
    const auto* const group = board.delegation.load(std::memory_order_acquire);
    return group == nullptr ? UINT64_MAX : group->settings.chunkNumel;
  }

  void reduce(std::uint64_t sequence, const Request& request, std::chrono::milliseconds limit,
              const Steps& steps) override {
    const Delegate::Visit visit;
    if (Delegate::get().library.lost()) {
      throw std::runtime_error(kForked);
    }
    const auto* const group = board.delegation.load(std::memory_order_acquire);
    if (group == nullptr || sequence < group->firstSequence) {
      throw std::runtime_error("the process group of this allreduce has ended");
    }
    const auto begun = Library::Clock::now();
    const auto patience = std::min(limit > limit.zero() ? limit : group->timeout, kForever);
    const auto bytes = sumOverRanks(*group, sequence, request,
                                    {std::min(patience, group->longest), patience}, steps);
    if (bytes == 0) {
      board.failover.calls.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    board.calls.fetch_add(1, std::memory_order_relaxed);
    board.bytes.fetch_add(bytes, std::memory_order_relaxed);
    board.times.add(Library::Clock::now() - begun);
  }

  void abandon(std::uint64_t sequence) noexcept override { Delegate::get().abandon(sequence); }

  void join(const std::vector<const void*>& contexts, int rank, int size,
            std::chrono::milliseconds timeout, const Exchange& exchange) override {
    const Delegate::Visit visit;
    try {
      joinRanks(contexts, rank, size, timeout, exchange);
    } catch (...) {
      leave(contexts.empty() ? nullptr : contexts[0]);
      throw;
    }
  }

  void leave(const void* context) noexcept override {
    auto& delegate = Delegate::get();
    delegate.groups.remove(context);
    const auto* group = groupOf(context);
    if (group == nullptr || !board.delegation.compare_exchange_strong(group, nullptr)) {
      return;
    }
    if (!delegate.library.lost()) {
      delegate.printHint(*group);
      if (group->failover) {
        group->failover->leave();
      }
      if (group->heartbeat) {
        group->heartbeat->leave();
      }
    }
    delegate.mark.reset();
    // Until here a warning of another rank could have stopped the context of a new group.
    delegate.claimed = false;
    delegate.report.wake();
  }

  void abort(const void* context) noexcept override {
    if (delegates(context)) {
      Delegate::get().fail("the process group was aborted");
    }
  }

  std::size_t report(char* buffer, std::size_t capacity) const override {
    const auto report = Report::json();
    if (capacity > 0) {
      buffer[report.copy(buffer, capacity - 1)] = '\0';
    }
    return report.size() + 1;
  }
};

}  // namespace
}  // namespace switchml_torch

switchml_torch::Interface* switchml_torch_interface(const char* digest) {
  static auto* const face = new switchml_torch::Face;
  return std::string(digest) == SWITCHML_TORCH_DIGEST ? face : nullptr;
}
