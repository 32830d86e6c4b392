#include "SwitchMLAllreduce.hpp"

#include "SwitchMLReduction.hpp"

namespace switchml_torch {
namespace {

/// The group that delegates, if it owns this context; else null.
const Delegation* groupOf(const void* context) noexcept {
  const auto* const group = board.delegation.load(std::memory_order_acquire);
  return group != nullptr && group->owns(context) ? group : nullptr;
}

}  // namespace

bool delegates(const void* context) noexcept { return groupOf(context) != nullptr; }

std::uint64_t takeTicket(const void* context, const Request& request) noexcept {
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
  return kNoTicket;
}

std::uint64_t partNumel() noexcept {
  const auto* const group = board.delegation.load(std::memory_order_acquire);
  return group == nullptr ? UINT64_MAX : group->settings.chunkNumel;
}

void reduce(std::uint64_t ticket, const Request& request, std::chrono::milliseconds limit,
            const Steps& steps) {
  const Delegate::Visit visit;
  if (Delegate::get().library.lost()) {
    throw std::runtime_error(kForked);
  }
  const auto* const group = board.delegation.load(std::memory_order_acquire);
  if (group == nullptr || ticket < group->firstTicket) {
    throw std::runtime_error("the process group of this allreduce has ended");
  }
  const auto begun = Library::Clock::now();
  const auto patience = std::min(limit > limit.zero() ? limit : group->timeout, kForever);
  const auto bytes =
      sumOverRanks(*group, ticket, request, {std::min(patience, group->longest), patience}, steps);
  if (bytes == 0) {
    board.failover.calls.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  board.calls.fetch_add(1, std::memory_order_relaxed);
  board.bytes.fetch_add(bytes, std::memory_order_relaxed);
  board.times.add(Library::Clock::now() - begun);
}

void abandon(std::uint64_t ticket) noexcept {
  const auto* const group = board.delegation.load(std::memory_order_acquire);
  if (group != nullptr && ticket >= group->firstTicket) {
    Delegate::get().fail(text("allreduce number ", ticket, " was dropped before it was submitted"));
  }
}

void leave(const void* context) noexcept {
  auto& delegate = Delegate::get();
  delegate.groups.remove(context);
  const auto* group = groupOf(context);
  if (group == nullptr || !board.delegation.compare_exchange_strong(group, nullptr)) {
    return;
  }
  if (!delegate.library.lost()) {
    delegate.sayHint(*group);
    if (group->failover) {
      group->failover->leave();
    }
    if (group->pulse) {
      group->pulse->leave();
    }
  }
  delegate.mark.reset();
  // Until here a warning of another rank could have stopped the context of a new group.
  delegate.claimed = false;
  delegate.report.wake();
}

void abort(const void* context) noexcept {
  if (delegates(context)) {
    Delegate::get().fail("the process group was aborted");
  }
}

}  // namespace switchml_torch
