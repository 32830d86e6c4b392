/// The process group of the backend "switchml": Gloo's, with SwitchML in front of its allreduce and
/// reduce-scatter.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "FlightRecords.hpp"
#include "Group.hpp"
#include "SwitchMLAllreduce.hpp"
#include "WorkPool.hpp"

namespace switchml_delegate {

using namespace c10d;  // the types in Methods.inc are as in torch's header

/// The delegated works of a group that have not ended.
class InFlight {
 public:
  using Works = std::list<c10::intrusive_ptr<c10d::Work>>;

  Works::iterator add(c10::intrusive_ptr<c10d::Work> work);
  void remove(Works::iterator entry);

  /// Works that have no sum yet. A work in whose callback this is called is not among them.
  Works pending();

 private:
  std::mutex mutex_;
  Works works_;
};

/// Makes a process group of Gloo, which only Python can. Throws what that raises.
c10::intrusive_ptr<Group> makeGloo(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                   std::chrono::milliseconds timeout);

/// Hands on the description of a group, which is not virtual, and not in every torch.
template <typename Base>
auto describe(const Base& from, Base& to, int /*preferred*/)
    -> decltype(to.setGroupDesc(from.getGroupDesc())) {
  to.setGroupDesc(from.getGroupDesc());
}

template <typename Base>
void describe(const Base& /*from*/, Base& /*to*/, long /*otherwise*/) {}

/// True for tensors that Gloo takes as well. The delegate decides whether they are delegated.
inline bool areDense(const std::vector<at::Tensor>& tensors) {
  return !tensors.empty() && std::all_of(tensors.begin(), tensors.end(), [&](const auto& tensor) {
    return tensor.defined() && tensor.layout() == at::kStrided &&
           (tensor.is_cpu() || tensor.is_cuda()) && tensor.device() == tensors[0].device();
  });
}

/// True where each target is as large as one of `size` equal parts of its source.
inline bool areParts(const std::vector<at::Tensor>& targets, const std::vector<at::Tensor>& sources,
                     int size) {
  return targets.size() == sources.size() &&
         std::equal(targets.begin(), targets.end(), sources.begin(),
                    [&](const auto& target, const auto& source) {
                      return target.numel() * size == source.numel() &&
                             target.scalar_type() == source.scalar_type();
                    });
}

class ProcessGroupSwitchML : public Group {
 public:
  /// Delegates nothing before its ranks agree(). `name`: the backend that the user has named.
  ProcessGroupSwitchML(c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<Group> gloo,
                       std::chrono::milliseconds timeout, std::string name = "switchml");
  /// Waits for the delegated sums, but for no callback, which may itself end groups.
  ~ProcessGroupSwitchML() override;

  /// Lets the ranks agree on whether the group delegates from here on. Where it is not positive,
  /// the timeout is that of the group. Throws as Interface::join() does.
  void agree(const std::string& key, std::chrono::milliseconds timeout);

// All else that torch lets a subclass decide, handed on to the group that is wrapped.
#include "Methods.inc"

  const std::string getBackendName() const override { return name_; }

  /// Returns at once. The work waits for the delegated works before it, and fails as they do, as
  /// that of Gloo's barrier does with Gloo's.
  c10::intrusive_ptr<c10d::Work> barrier(
      const c10d::BarrierOptions& options = c10d::BarrierOptions()) override;

  /// Counts all collectives, wherever they went.
  std::uint64_t getSequenceNumberForGroup() override;

  /// Waits for the delegated work of the groups of this process, and for its callbacks. A group for
  /// which a thread waits stays until the process ends, as Gloo's does, so nothing waits for it.
  static void finishAll();

  const c10::intrusive_ptr<Group>& wrapped() const { return wrapped_; }

 protected:
  /// Called before the wrapped group is aborted. Fails the delegated work.
  void giveUp();

  /// Called before the wrapped group is shut down, or has other ranks. Ends the delegation: the
  /// next group may delegate while this one is still referred to.
  void end();

 private:
  struct Kind {
    c10d::OpType type;
    const char* title;  // for the profiler
    c10d::ReduceOp op;
    std::chrono::milliseconds timeout;  // of the call, where it has one
  };

  /// Null where that is left to Gloo. Returns at once, whatever is in flight. Works begin in the
  /// order of the calls. Each target of a reduce-scatter is this rank's part of the sum of its
  /// source.
  c10::intrusive_ptr<c10d::Work> delegated(Kind kind, const std::vector<at::Tensor>& sources,
                                           const std::vector<at::Tensor>& targets);

  // The collectives that are delegated. virtuals.py has the methods of torch that begin with them.
  c10::intrusive_ptr<c10d::Work> allreduced(c10d::OpType type,
                                            const std::vector<at::Tensor>& tensors,
                                            const c10d::AllreduceOptions& options) {
    // Coalesced ones Gloo takes in host memory only.
    if (!areDense(tensors) || (type == c10d::OpType::ALLREDUCE_COALESCED && !tensors[0].is_cpu())) {
      return {};
    }
    return delegated({type, "switchml:all_reduce", options.reduceOp, options.timeout}, tensors,
                     tensors);
  }

  c10::intrusive_ptr<c10d::Work> reduceScattered(const std::vector<at::Tensor>& targets,
                                                 const std::vector<at::Tensor>& sources,
                                                 const c10d::ReduceScatterOptions& options) {
    if (!areDense(targets) || !areDense(sources) || targets[0].device() != sources[0].device() ||
        !areParts(targets, sources, getSize())) {
      return {};
    }
    return delegated({c10d::OpType::_REDUCE_SCATTER_BASE, "switchml:reduce_scatter",
                      options.reduceOp, options.timeout},
                     sources, targets);
  }

  /// A work of the wrapped group, which gets its description first: it has its name by then.
  template <typename Call>
  c10::intrusive_ptr<c10d::Work> made(const Call& call) {
    std::call_once(described_, [this] { describe<Group>(*this, *wrapped_, 0); });
    return call();
  }

  /// The timeout of what is asked for from here on.
  void limit(std::chrono::milliseconds timeout) { limit_ = timeout; }

  /// The group that stands before a new one that the wrapped group has made of its ranks. Null for
  /// null. The store is that of the new group.
  c10::intrusive_ptr<Group> adopt(const c10::intrusive_ptr<c10d::Store>& store,
                                  c10::intrusive_ptr<Group> child,
                                  std::chrono::milliseconds timeout);

  bool isDelegating() const {
    return switchml_delegate::delegate() != nullptr && delegate()->delegates(pool_[0].get());
  }

  std::chrono::milliseconds limitOf(std::chrono::milliseconds timeout) const {
    return timeout > timeout.zero() ? timeout : limit_.load();
  }

  c10::intrusive_ptr<Group> wrapped_;
  std::once_flag described_;
  const std::string name_;
  const c10::intrusive_ptr<c10d::Store> store_;
  // One pool, whose address is what the delegate knows the group by.
  std::vector<std::shared_ptr<WorkPool>> pool_;
  const std::shared_ptr<InFlight> flight_;
  // Threads that wait for a work.
  const std::shared_ptr<std::atomic<int>> waiting_ = std::make_shared<std::atomic<int>>(0);
  const std::shared_ptr<std::atomic<bool>> aborted_;
  std::mutex order_;  // from numbering a call to queueing its work
  std::atomic<std::uint64_t> delegated_{0};
  std::atomic<std::chrono::milliseconds> limit_;  // of a call, where it has none of its own
  FlightRecords records_;
};

}  // namespace switchml_delegate
