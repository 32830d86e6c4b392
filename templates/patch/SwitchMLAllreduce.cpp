#include "SwitchMLAllreduce.hpp"

#include "SwitchMLReduction.hpp"

namespace switchml_torch {
namespace {

/// The group that delegates, if it owns this context; else null.
const Delegation* groupOf(const void* context) noexcept {
  const auto* const group = board.delegation.load(std::memory_order_acquire);
  const bool owns = group != nullptr && std::find(group->contexts.begin(), group->contexts.end(),
                                                  context) != group->contexts.end();
  return owns ? group : nullptr;
}

}  // namespace

bool delegates(const void* context) noexcept {
  return groupOf(context) != nullptr || Delegate::get().election.has(context);
}

void countUndelegated() noexcept {
  board.fallbacks[kGroup].fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t takeTicket(const void* context, const Request& request) {
  auto& delegate = Delegate::get();
  const auto* group = board.delegation.load(std::memory_order_acquire);
  // Gloo has no average of integers either: it raises.
  const bool integers = request.element == Element::kInt32 && request.op == Op::kAvg;
  const auto why = group == nullptr                                   ? kGroup
                   : request.tensors != 1                             ? kTensors
                   : !group->settings.ops.has(request.op) || integers ? kOp
                   : !group->settings.dtypes.has(request.element)     ? kDtype
                   : request.numel < group->settings.minNumel         ? kNumel
                                                                      : kFallbacks;
  const auto leaveToGloo = [](Fallback reason) {
    board.fallbacks[reason].fetch_add(1, std::memory_order_relaxed);
    return kNoTicket;
  };
  if (why != kFallbacks) {
    return leaveToGloo(why);
  }
  if (delegate.election.open()) {
    delegate.election.vote(context, request.numel);
  }
  group = groupOf(context);
  return group == nullptr ? leaveToGloo(kGroup) : delegate.order.take(group->jobsOf(request));
}

std::uint64_t partNumel() noexcept {
  const auto* const group = board.delegation.load(std::memory_order_acquire);
  return group == nullptr ? UINT64_MAX : group->settings.chunkNumel;
}

void reduce(std::uint64_t ticket, const Request& request, std::chrono::milliseconds limit,
            const Steps& steps) {
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
  delegate.election.leave(context);
  const auto* group = groupOf(context);
  if (group == nullptr || !board.delegation.compare_exchange_strong(group, nullptr)) {
    return;
  }
  if (!delegate.library.lost()) {
    if (group->failover) {
      group->failover->leave();
    }
    if (group->pulse) {
      group->pulse->leave();
    }
  }
  // Until here a warning of another rank could have stopped the context of a new group.
  delegate.claimed = false;
  delegate.report.wake();
}

void abort(const void* context) noexcept {
  auto& delegate = Delegate::get();
  if (groupOf(context) != nullptr || delegate.election.votes(context)) {
    delegate.fail("the process group was aborted");
  }
}

}  // namespace switchml_torch
