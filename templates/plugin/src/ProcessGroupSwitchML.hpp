/// The process group of the backend "switchml": Gloo's, with SwitchML in front of its allreduce and
/// reduce-scatter.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "FlightRecords.hpp"
#include "Group.hpp"
#include "PendingWorks.hpp"
#include "WorkPool.hpp"
#include "base/mutex.hpp"

namespace switchml_delegate {

using namespace c10d;  // the types in Methods.inc are as in torch's header

/// Makes a process group of Gloo, which only Python can. Throws what that raises.
c10::intrusive_ptr<Group> makeGloo(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                   std::chrono::milliseconds timeout);

/// Process group that wraps one of Gloo, and gives some of its collectives to SwitchML.
///
///   1. agree() lets the ranks agree on whether the group delegates.
///   2. A collective that SwitchML can do takes its sequence number, and its work is queued in the
///      pool: see tryDelegate(). Gloo does every other collective at once.
///   3. A pool thread runs the work and completes it: see ReduceWork.
///   4. endDelegation() waits for the works, and leaves SwitchML to other groups. agree() may
///      follow, after the group was reconfigured. abortDelegation() fails the works first.
///
/// Any thread of the program may call the collectives, also several threads at once, and callbacks
/// in pool threads. A watchdog thread may call abort(). `submission_` orders the collectives that
/// are delegated; all members that change are atomic or have a mutex of their own. Python's lock is
/// released wherever a member waits for other threads.
class ProcessGroupSwitchML : public Group {
 public:
  /// Delegates nothing before agree(). `name`: the backend that the user has named.
  ProcessGroupSwitchML(c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<Group> gloo,
                       std::chrono::milliseconds timeout, std::string name = "switchml");
  /// Waits for the delegated sums, but for no callback, because callbacks may end groups.
  ~ProcessGroupSwitchML() override;

  /// Lets the ranks agree on whether the group delegates from here on. If `timeout` is not
  /// positive, the group's timeout limits the agreement. Throws as Interface::join() does.
  void agree(const std::string& key, std::chrono::milliseconds timeout);

// All other virtual methods, generated from torch's header: they call the wrapped group.
#include "Methods.inc"

  const std::string getBackendName() const override { return name_; }

  /// Returns at once. The work waits for the delegated works before it, and fails as they do, as
  /// that of Gloo's barrier does with Gloo's.
  c10::intrusive_ptr<c10d::Work> barrier(
      const c10d::BarrierOptions& options = c10d::BarrierOptions()) override;

  /// Counts all collectives, those of Gloo and the delegated ones.
  std::uint64_t getSequenceNumberForGroup() override;

  /// Waits for the delegated works of all groups of this process, and for their callbacks: see
  /// GroupRegistry.
  static void finishAll();

  const c10::intrusive_ptr<Group>& wrapped() const { return wrapped_; }

 protected:
  /// Fails the delegated works, and ends the delegation: the next group may delegate while this
  /// group is still referred to. Called before the wrapped group is aborted.
  void abortDelegation();

  /// Waits for the delegated works, and ends the delegation. Called before the wrapped group is
  /// shut down or gets other ranks.
  void endDelegation();

 private:
  struct Collective {
    c10d::OpType type;
    const char* title;  // for the profiler
    c10d::ReduceOp op;
    std::chrono::milliseconds timeout;  // of the call; not positive: that of the group
  };

  /// Delegates a collective; null if Gloo must do it. Returns at once, and works begin in the order
  /// of the calls. Each target of a reduce-scatter is this rank's part of the sum of its source.
  c10::intrusive_ptr<c10d::Work> tryDelegate(const Collective& collective,
                                             const std::vector<at::Tensor>& sources,
                                             const std::vector<at::Tensor>& targets)
      EXCLUDES(submission_);

  // The collectives that may be delegated, as tryDelegate(). virtuals.py has the methods of torch
  // that begin with them.
  c10::intrusive_ptr<c10d::Work> tryAllreduce(c10d::OpType type,
                                              const std::vector<at::Tensor>& tensors,
                                              const c10d::AllreduceOptions& options);
  c10::intrusive_ptr<c10d::Work> tryReduceScatter(const std::vector<at::Tensor>& targets,
                                                  const std::vector<at::Tensor>& sources,
                                                  const c10d::ReduceScatterOptions& options);

  /// Returns the work that `call` makes of the wrapped group, which has its description by then.
  template <typename Call>
  c10::intrusive_ptr<c10d::Work> forward(const Call& call) {
    describeWrapped();
    return call();
  }

  /// Gives the wrapped group the description of this one, once. Torch sets it after the
  /// constructor.
  void describeWrapped();

  void setDefaultTimeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }

  /// Wraps a new group that the wrapped group has made, whose store is `store`. Null for null.
  c10::intrusive_ptr<Group> wrapChild(const c10::intrusive_ptr<c10d::Store>& store,
                                      c10::intrusive_ptr<Group> child,
                                      std::chrono::milliseconds timeout);

  bool isDelegating() const;

  /// The timeout of a call, or the group's if that of the call is not positive.
  std::chrono::milliseconds timeoutOr(std::chrono::milliseconds timeout) const {
    return timeout > timeout.zero() ? timeout : timeout_.load();
  }

  c10::intrusive_ptr<Group> wrapped_;
  std::once_flag described_;
  const std::string name_;
  const c10::intrusive_ptr<c10d::Store> store_;
  // The delegate knows the group by the address of its one pool.
  std::vector<std::shared_ptr<WorkPool>> pool_;
  const std::shared_ptr<PendingWorks> pending_;
  const std::shared_ptr<std::atomic<int>> waiters_;   // threads that wait for a work
  const std::shared_ptr<std::atomic<bool>> aborted_;  // since the last agree()
  Mutex submission_;  // held from the sequence number of a call until its work is in the pool
  std::atomic<std::uint64_t> delegated_{0};         // calls since the last agree()
  std::atomic<std::chrono::milliseconds> timeout_;  // of a call that has none of its own
  FlightRecords records_;
};

}  // namespace switchml_delegate
