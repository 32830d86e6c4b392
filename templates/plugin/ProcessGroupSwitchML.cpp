#include "ProcessGroupSwitchML.hpp"

#include <ATen/ThreadLocalState.h>
#include <Python.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "Staging.hpp"

namespace switchml_delegate {
namespace {

constexpr std::size_t kPlaces = 2;  // as many threads as Gloo has
constexpr const char* kPrefix = "switchml-plugin";

using Future = c10::ivalue::Future;

/// Lets other threads have Python's lock for as long as this one waits for them, until what it
/// returns ends.
std::unique_ptr<PyThreadState, decltype(&PyEval_RestoreThread)> unlocked() {
  const bool locked = Py_IsInitialized() && PyGILState_Check();
  return {locked ? PyEval_SaveThread() : nullptr, PyEval_RestoreThread};
}

/// Call that made a work, as the work reports it.
struct Call {
  std::uint64_t sequence;
  std::chrono::milliseconds timeout;
  std::shared_ptr<std::atomic<int>> waiting;  // of the group
  FlightRecords::Done done;                   // called when it has succeeded
};

/// A work that a thread of the pool ends.
class PoolWork : public c10d::Work {
 public:
  PoolWork(c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
           std::vector<c10::Device> devices, Call call)
      : Work(-1, type, title, inputs),
        call_(std::move(call)),
        future_(c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()),
                                            std::move(devices))) {}

  /// The future has events, and not every torch destroys them where it should.
  ~PoolWork() override {
    if (!future_->devices().empty()) {
      tryOn(future_->devices()[0], [this] { future_.reset(); });
    }
  }

  c10::intrusive_ptr<Future> getFuture() override { return future_; }

  bool wait(std::chrono::milliseconds timeout) override {
    ++*call_.waiting;
    const auto waited = c10::make_scope_exit([this] { --*call_.waiting; });
    return Work::wait(timeout);
  }

  // These override where the Work of this torch has them. Torch would make a stream wait for the
  // future, which knows nothing of the copy back to a device, so the caller waits.
  void blockCurrentStream() { wait(kNoTimeout); }
  std::uint64_t getSequencenumber() const { return call_.sequence; }
  std::chrono::milliseconds getTimeout() const { return call_.timeout; }

  /// The callbacks of the future run before `wait()` returns, so that the collectives that they
  /// call come before the caller's next.
  void end(std::exception_ptr failure, const std::vector<at::Tensor>& tensors) noexcept {
    try {
      if (!failure) {
        call_.done();
      }
    } catch (const std::exception&) {  // the sum is there, with or without its record
    }
    try {
      if (failure) {
        future_->setError(failure);
      } else {
        future_->markCompleted(tensors);
      }
    } catch (...) {
      failure = failure ? failure : std::current_exception();
    }
    finish(failure);
  }

 private:
  const Call call_;
  c10::intrusive_ptr<Future> future_;
};

/// The sum of tensors over all ranks, in place of them or, of a reduce-scatter, one part of it.
class ReduceWork : public PoolWork {
 public:
  using Tensors = std::vector<at::Tensor>;

  /// Each target is the part of `rank` of its source. Of an allreduce it is the whole, that of rank
  /// 0.
  ReduceWork(c10d::OpType type, const char* title, const Tensors& sources, Tensors targets,
             int rank, std::unique_ptr<Allreduce> allreduce, Call call, Patience patience)
      : PoolWork(type, title, sources, devicesOf(sources[0]), std::move(call)),
        sources_(sources),
        results_(partsOf(rank, sources, targets)),
        targets_(std::move(targets)),
        allreduce_(std::move(allreduce)),
        staging_(sources[0].is_cpu()
                     ? nullptr
                     : std::make_unique<Staging>(sources_, results_, std::move(patience))) {}

  /// The callbacks may take their time, so they run without the place.
  void run(WorkPool::Place& place) noexcept {
    std::exception_ptr failure;
    c10::OptionalStreamGuard guard;  // also for the future, which looks at the current stream
    try {
      const at::ThreadLocalStateGuard state(state_);
      if (staging_ == nullptr) {
        allreduce_->reduce(sources_, results_);
      } else {
        guard.reset_stream(staging_->stream());
        const RowLayout<at::Tensor> row({staging_->fetch()});
        allreduce_->reduce(
            row, row,
            {[this](std::int64_t /*first*/, std::int64_t last) { staging_->arrive(last); },
             [this](std::int64_t first, std::int64_t last) { staging_->giveBack(first, last); }});
      }
    } catch (...) {
      failure = std::current_exception();
      if (staging_ != nullptr) {  // nobody waits for the event of a failed work
        staging_->settle();
      }
    }
    allreduce_.reset();
    place.release();
    end(failure, targets_);
  }

  Tensors result() override {
    TORCH_CHECK(isCompleted(), "wait() for the work before you ask for its result()");
    return targets_;
  }

  void synchronize() override {
    if (staging_ != nullptr) {
      staging_->block();
    }
    Work::synchronize();
  }

 private:
  static std::vector<c10::Device> devicesOf(const at::Tensor& tensor) {
    return tensor.is_cpu() ? std::vector<c10::Device>{} : std::vector<c10::Device>{tensor.device()};
  }

  static RowLayout<at::Tensor> partsOf(std::int64_t rank, const Tensors& sources,
                                       const Tensors& targets) {
    RowLayout<at::Tensor> parts;
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      parts.add(targets[i], offset + rank * targets[i].numel());
      offset += sources[i].numel();
    }
    return parts;
  }

  const RowLayout<at::Tensor> sources_;
  const RowLayout<at::Tensor> results_;
  const Tensors targets_;
  std::unique_ptr<Allreduce> allreduce_;
  const at::ThreadLocalState state_;
  const std::unique_ptr<Staging> staging_;
};

/// Ring over the messages of a process group that has no other use. torch numbers the operations of
/// a group without a lock.
Ring ringOf(const c10::intrusive_ptr<Group>& gloo) {
  const auto mutex = std::make_shared<std::mutex>();
  const auto begin = [=](auto call, int away, unsigned channel, const void* data,
                         std::size_t bytes) {
    std::vector<at::Tensor> tensors{
        at::from_blob(const_cast<void*>(data), {static_cast<std::int64_t>(bytes)}, at::kByte)};
    const auto size = gloo->getSize();
    const auto other = (gloo->getRank() + size + away) % size;
    std::unique_lock<std::mutex> lock(*mutex);
    const auto work = ((*gloo).*call)(tensors, other, static_cast<int>(channel));
    lock.unlock();
    return Transfer{
        [gloo = gloo, work](std::chrono::milliseconds limit) { return work->wait(limit); },
        [work] { work->abort(); }};
  };
  Ring ring;
  ring.send = [=](unsigned channel, const void* data, std::size_t bytes) {
    return begin(&Group::send, 1, channel, data, bytes);
  };
  ring.receive = [=](unsigned channel, void* data, std::size_t bytes) {
    return begin(&Group::recv, -1, channel, data, bytes);
  };
  return ring;
}

/// All groups. Never destroyed.
struct Registry {
  struct Known {
    decltype(std::declval<WorkPool>().watch()) pool;
    std::shared_ptr<const std::atomic<int>> waiting;
  };
  std::mutex mutex;
  std::vector<Known> groups;
};

Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

}  // namespace

InFlight::Works::iterator InFlight::add(c10::intrusive_ptr<c10d::Work> work) {
  std::lock_guard<std::mutex> lock(mutex_);
  return works_.insert(works_.end(), std::move(work));
}

void InFlight::remove(Works::iterator entry) {
  Works ended;  // is destroyed, with tensors perhaps, without the mutex
  std::lock_guard<std::mutex> lock(mutex_);
  ended.splice(ended.end(), works_, entry);
}

InFlight::Works InFlight::pending() {
  Works found;
  std::lock_guard<std::mutex> lock(mutex_);
  std::copy_if(works_.begin(), works_.end(), std::back_inserter(found),
               [](const auto& work) { return !work->getFuture()->completed(); });
  return found;
}

ProcessGroupSwitchML::ProcessGroupSwitchML(c10::intrusive_ptr<c10d::Store> store,
                                           c10::intrusive_ptr<Group> gloo,
                                           std::chrono::milliseconds timeout, std::string name)
    : Group(gloo->getRank(), gloo->getSize()),
      wrapped_(std::move(gloo)),
      name_(std::move(name)),
      store_(std::move(store)),
      pool_{std::make_shared<WorkPool>(kPlaces)},
      flight_(std::make_shared<InFlight>()),
      aborted_(std::make_shared<std::atomic<bool>>(false)),
      limit_(timeout) {
  auto& known = registry();
  std::lock_guard<std::mutex> lock(known.mutex);
  known.groups.erase(std::remove_if(known.groups.begin(), known.groups.end(),
                                    [](const auto& group) { return group.pool.expired(); }),
                     known.groups.end());
  known.groups.push_back({pool_[0]->watch(), waiting_});
}

ProcessGroupSwitchML::~ProcessGroupSwitchML() {
  const auto unlock = unlocked();
  if (pool_[0]->forked()) {
    static_cast<void>(wrapped_.release());  // its destructor would wait for the parent's threads
  } else {
    end();
  }
  pool_.clear();
  wrapped_.reset();
}

void ProcessGroupSwitchML::agree(const std::string& key, std::chrono::milliseconds timeout) {
  const auto unlock = unlocked();
  *aborted_ = false;
  delegated_ = 0;
  const auto own = c10::make_intrusive<c10d::PrefixStore>(kPrefix + key, store_);
  const auto connect = [&] {
    // Messages over the wrapped group would be counted there, and their time limit could end it.
    return ringOf(makeGloo(c10::make_intrusive<c10d::PrefixStore>("failover", own), getRank(),
                           getSize(), limitOf(timeout)));
  };
  join<c10d::Store>(*own, pool_, getRank(), getSize(), limitOf(timeout), connect,
                    SWITCHML_PLUGIN_DIGEST);
}

c10::intrusive_ptr<Group> ProcessGroupSwitchML::adopt(const c10::intrusive_ptr<c10d::Store>& store,
                                                      c10::intrusive_ptr<Group> child,
                                                      std::chrono::milliseconds timeout) {
  if (!child) {
    return child;
  }
  auto group = c10::make_intrusive<ProcessGroupSwitchML>(store, std::move(child), timeout, name_);
  group->agree("", timeout);
  return group;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSwitchML::delegated(
    Kind kind, const std::vector<at::Tensor>& sources, const std::vector<at::Tensor>& targets) {
  const bool delegating = isDelegating();
  TORCH_CHECK(!delegating || !pool_[0]->forked(),
              "this process group was made before this process was forked");
  if (delegating && !sources[0].is_cpu()) {
    Staging::refuseCapture(sources[0].device());
  }
  auto trace = delegating ? records_.trace() : nullptr;  // waits for Python's lock
  std::lock_guard<std::mutex> lock(order_);
  TORCH_CHECK(!*aborted_, kAllreduceFailed, kGroupAborted);
  const auto sequence =
      getSequenceNumberForGroup() + 1;  // may throw, which would cost a number of the order
  auto allreduce = std::make_unique<Allreduce>(pool_[0].get(), sources, kind.op);
  const auto timeout = limitOf(kind.timeout);
  allreduce->limit(timeout);
  if (kind.type != c10d::OpType::ALLREDUCE) {
    allreduce->coalesce();
  }
  if (!*allreduce) {
    return {};
  }
  ++delegated_;
  auto work = c10::make_intrusive<ReduceWork>(
      kind.type, kind.title, sources, targets, &sources == &targets ? 0 : getRank(),
      std::move(allreduce),
      Call{
          sequence, timeout, waiting_,
          records_.add(*this, std::move(trace), kind.title, sources, targets, timeout, delegated_)},
      Patience{timeout, aborted_});
  const auto entry = flight_->add(work);
  try {
    pool_[0]->submit([work, entry, flight = flight_](WorkPool::Place& place) {
      work->run(place);
      flight->remove(entry);
    });
  } catch (...) {
    flight_->remove(entry);
    throw;
  }
  return work;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSwitchML::barrier(const c10d::BarrierOptions& options) {
  auto inner = made([&] { return wrapped_->barrier(options); });
  auto before = pool_[0]->forked() ? InFlight::Works() : flight_->pending();
  if (before.empty()) {
    return inner;
  }
  auto work = c10::make_intrusive<PoolWork>(
      c10d::OpType::BARRIER, nullptr, std::vector<at::Tensor>{}, std::vector<c10::Device>{},
      Call{getSequenceNumberForGroup(), limitOf(options.timeout), waiting_, [] {}});
  pool_[0]->submit([work, before = std::move(before), inner](WorkPool::Place& place) mutable {
    place.release();  // the works that it waits for may need it
    std::exception_ptr failure;
    try {
      for (const auto& one : before) {
        one->c10d::Work::wait();  // no thread of the program waits
      }
      inner->wait();
    } catch (...) {
      failure = std::current_exception();
    }
    before.clear();
    work->end(failure, {});
  });
  return work;
}

std::uint64_t ProcessGroupSwitchML::getSequenceNumberForGroup() {
  return wrapped_->getSequenceNumberForGroup() + delegated_;
}

/// The group leaves SwitchML to the next one, which may be made while this one is there.
void ProcessGroupSwitchML::giveUp() {
  if (!isDelegating() || pool_[0]->forked()) {
    return;
  }
  const auto unlock = unlocked();
  *aborted_ = true;
  delegate()->abort(pool_[0].get());
  std::unique_lock<std::mutex>(order_).unlock();  // no call is between its number and the pool
  end();
}

void ProcessGroupSwitchML::end() {
  if (!pool_[0]->forked()) {
    const auto unlock = unlocked();
    pool_[0]->drain();
    leave(pool_);
  }
}

void ProcessGroupSwitchML::finishAll() {
  auto& known = registry();
  std::unique_lock<std::mutex> lock(known.mutex);
  const auto groups = known.groups;
  lock.unlock();
  for (const auto& group : groups) {
    const auto pool = group.pool.lock();
    if (pool != nullptr && !pool->forked() && *group.waiting == 0) {
      pool->finish(std::chrono::minutes(30));  // as long as c10d waits by default
    }
  }
}

}  // namespace switchml_delegate
