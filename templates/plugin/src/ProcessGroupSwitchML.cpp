#include "ProcessGroupSwitchML.hpp"

#include <Python.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "GlooRing.hpp"
#include "GroupRegistry.hpp"
#include "PoolWork.hpp"
#include "ReduceWork.hpp"
#include "Staging.hpp"
#include "SwitchMLAllreduce.hpp"

namespace switchml_delegate {
namespace {

constexpr std::size_t kSlots = 2;  // as many threads as Gloo has
constexpr const char* kPrefix = "switchml-plugin";

/// Releases Python's lock, if the thread holds it, until the returned value is destroyed.
std::unique_ptr<PyThreadState, decltype(&PyEval_RestoreThread)> releaseGil() {
  const bool held = Py_IsInitialized() && PyGILState_Check();
  return {held ? PyEval_SaveThread() : nullptr, PyEval_RestoreThread};
}

/// Copies the description of a group. The methods are not virtual, and not in every torch.
template <typename Base>
auto copyDescription(const Base& from, Base& to, int /*preferred*/)
    -> decltype(to.setGroupDesc(from.getGroupDesc())) {
  to.setGroupDesc(from.getGroupDesc());
}

template <typename Base>
void copyDescription(const Base& /*from*/, Base& /*to*/, long /*otherwise*/) {}

/// True for tensors that Gloo takes as well. The delegate decides whether they are delegated.
bool areDense(const std::vector<at::Tensor>& tensors) {
  return !tensors.empty() && std::all_of(tensors.begin(), tensors.end(), [&](const auto& tensor) {
    return tensor.defined() && tensor.layout() == at::kStrided &&
           (tensor.is_cpu() || tensor.is_cuda()) && tensor.device() == tensors[0].device();
  });
}

/// True if each target is as large as one of `size` equal parts of its source.
bool areParts(const std::vector<at::Tensor>& targets, const std::vector<at::Tensor>& sources,
              int size) {
  return targets.size() == sources.size() &&
         std::equal(targets.begin(), targets.end(), sources.begin(),
                    [&](const auto& target, const auto& source) {
                      return target.numel() * size == source.numel() &&
                             target.scalar_type() == source.scalar_type();
                    });
}

}  // namespace

ProcessGroupSwitchML::ProcessGroupSwitchML(c10::intrusive_ptr<c10d::Store> store,
                                           c10::intrusive_ptr<Group> gloo,
                                           std::chrono::milliseconds timeout, std::string name)
    : Group(gloo->getRank(), gloo->getSize()),
      wrapped_(std::move(gloo)),
      name_(std::move(name)),
      store_(std::move(store)),
      pool_{std::make_shared<WorkPool>(kSlots)},
      pending_(std::make_shared<PendingWorks>()),
      waiters_(std::make_shared<std::atomic<int>>(0)),
      aborted_(std::make_shared<std::atomic<bool>>(false)),
      timeout_(timeout) {
  GroupRegistry::instance().add(pool_[0]->watch(), waiters_);
}

ProcessGroupSwitchML::~ProcessGroupSwitchML() {
  const auto released = releaseGil();
  if (pool_[0]->forked()) {
    static_cast<void>(wrapped_.release());  // its destructor would wait for the parent's threads
  } else {
    endDelegation();
  }
  pool_.clear();
  wrapped_.reset();
}

void ProcessGroupSwitchML::agree(const std::string& key, std::chrono::milliseconds timeout) {
  const auto released = releaseGil();
  *aborted_ = false;
  delegated_ = 0;
  const auto own = c10::make_intrusive<c10d::PrefixStore>(kPrefix + key, store_);
  const auto connect = [&] {
    // The wrapped group would count these messages, and their time limit could end it.
    return ringOver(makeGloo(c10::make_intrusive<c10d::PrefixStore>("failover", own), getRank(),
                             getSize(), timeoutOr(timeout)));
  };
  join<c10d::Store>(*own, pool_, getRank(), getSize(), timeoutOr(timeout), connect,
                    SWITCHML_PLUGIN_DIGEST);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSwitchML::barrier(const c10d::BarrierOptions& options) {
  auto ofGloo = forward([&] { return wrapped_->barrier(options); });
  auto before = pool_[0]->forked() ? PendingWorks::Works() : pending_->incomplete();
  if (before.empty()) {
    return ofGloo;
  }
  auto work = c10::make_intrusive<PoolWork>(
      c10d::OpType::BARRIER, nullptr, std::vector<at::Tensor>{}, std::vector<c10::Device>{},
      CallInfo{getSequenceNumberForGroup(), timeoutOr(options.timeout), waiters_, [] {}});
  pool_[0]->submit([work, before = std::move(before), ofGloo](WorkPool::Slot& slot) mutable {
    slot.release();  // the works before may need it
    std::exception_ptr failure;
    try {
      for (const auto& pending : before) {
        pending->c10d::Work::wait();  // does not count as a thread of the program that waits
      }
      ofGloo->wait();
    } catch (...) {
      failure = std::current_exception();
    }
    before.clear();
    work->complete(failure, {});
  });
  return work;
}

std::uint64_t ProcessGroupSwitchML::getSequenceNumberForGroup() {
  return wrapped_->getSequenceNumberForGroup() + delegated_;
}

void ProcessGroupSwitchML::finishAll() { GroupRegistry::instance().waitUntilIdle(); }

void ProcessGroupSwitchML::abortDelegation() {
  if (!isDelegating() || pool_[0]->forked()) {
    return;
  }
  const auto released = releaseGil();
  *aborted_ = true;
  delegate()->abort(pool_[0].get());
  { const MutexLock lock(submission_); }  // calls that have a number are in the pool from here on
  endDelegation();
}

void ProcessGroupSwitchML::endDelegation() {
  if (!pool_[0]->forked()) {
    const auto released = releaseGil();
    pool_[0]->drain();
    leave(pool_);
  }
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSwitchML::tryDelegate(
    const Collective& collective, const std::vector<at::Tensor>& sources,
    const std::vector<at::Tensor>& targets) {
  const bool delegating = isDelegating();
  TORCH_CHECK(!delegating || !pool_[0]->forked(),
              "this process group was made before this process was forked");
  if (delegating && !sources[0].is_cpu()) {
    checkNotCapturing(sources[0].device());
  }
  auto trace = delegating ? records_.trace() : nullptr;  // before the lock: waits for Python's
  const MutexLock lock(submission_);
  TORCH_CHECK(!*aborted_, kAllreduceFailed, kGroupAborted);
  // Before the Allreduce, because a sequence number that is lost would end the delegation.
  const auto sequence = getSequenceNumberForGroup() + 1;
  auto allreduce = std::make_unique<Allreduce>(pool_[0].get(), sources, collective.op);
  const auto timeout = timeoutOr(collective.timeout);
  allreduce->limit(timeout);
  if (collective.type != c10d::OpType::ALLREDUCE) {
    allreduce->coalesce();
  }
  if (!*allreduce) {
    return {};
  }
  ++delegated_;
  auto work = c10::make_intrusive<ReduceWork>(
      collective.type, collective.title, sources, targets, &sources == &targets ? 0 : getRank(),
      std::move(allreduce),
      CallInfo{sequence, timeout, waiters_,
               records_.add(*this, std::move(trace), collective.title, sources, targets, timeout,
                            delegated_)},
      WaitOptions{timeout, aborted_});
  const auto entry = pending_->add(work);
  try {
    pool_[0]->submit([work, entry, pending = pending_](WorkPool::Slot& slot) {
      work->run(slot);
      pending->remove(entry);
    });
  } catch (...) {
    pending_->remove(entry);
    throw;
  }
  return work;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSwitchML::tryAllreduce(
    c10d::OpType type, const std::vector<at::Tensor>& tensors,
    const c10d::AllreduceOptions& options) {
  // Gloo coalesces tensors in host memory only.
  if (!areDense(tensors) || (type == c10d::OpType::ALLREDUCE_COALESCED && !tensors[0].is_cpu())) {
    return {};
  }
  return tryDelegate({type, "switchml:all_reduce", options.reduceOp, options.timeout}, tensors,
                     tensors);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSwitchML::tryReduceScatter(
    const std::vector<at::Tensor>& targets, const std::vector<at::Tensor>& sources,
    const c10d::ReduceScatterOptions& options) {
  if (!areDense(targets) || !areDense(sources) || targets[0].device() != sources[0].device() ||
      !areParts(targets, sources, getSize())) {
    return {};
  }
  return tryDelegate({c10d::OpType::_REDUCE_SCATTER_BASE, "switchml:reduce_scatter",
                      options.reduceOp, options.timeout},
                     sources, targets);
}

void ProcessGroupSwitchML::describeWrapped() {
  std::call_once(described_, [this] { copyDescription<Group>(*this, *wrapped_, 0); });
}

c10::intrusive_ptr<Group> ProcessGroupSwitchML::wrapChild(
    const c10::intrusive_ptr<c10d::Store>& store, c10::intrusive_ptr<Group> child,
    std::chrono::milliseconds timeout) {
  if (!child) {
    return child;
  }
  auto group = c10::make_intrusive<ProcessGroupSwitchML>(store, std::move(child), timeout, name_);
  group->agree("", timeout);
  return group;
}

bool ProcessGroupSwitchML::isDelegating() const {
  return switchml_delegate::delegate() != nullptr && delegate()->delegates(pool_[0].get());
}

}  // namespace switchml_delegate
