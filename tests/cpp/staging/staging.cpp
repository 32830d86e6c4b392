// The plugin's allreduce of tensors on a device that has no hardware, for the variants of the
// plugin that variants.inc names.
//
// `orders VARIANT[=SCENARIO,...]...` runs these scenarios, or all, in every order of what the
// device does, without any chance, until a result is wrong. It prints a line for each variant and
// scenario: in how many orders it ran, in how many of them a result was wrong, in how many neither
// allreduce() nor wait() had let the host wait for the device, and in how many a part was copied
// back before the last one was copied out.
//
// `threads VARIANT N` runs one variant N times, with the device in a thread of its own and in a
// random order, and prints how many runs were wrong. `queue VARIANT N` likewise, with one call
// after many others whose values are not there until the others have their sums.
//
// `capture` says whether CUDA's own answer about a capture is found, where torch has none;
// `failure` whether a call that fails ends while its copies do not.

#include <Python.h>
#include <torch/version.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "../check.hpp"
#include "registration.hpp"

#if TORCH_VERSION_MAJOR > 1
#include <torch/csrc/distributed/c10d/Backend.hpp>
using AnyGroup = c10::intrusive_ptr<c10d::Backend>;
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
using AnyGroup = c10::intrusive_ptr<c10d::ProcessGroup>;
#endif

using registration::streamOf;

/// Values of elements, of which no two are equal.
struct Values {
  constexpr Values(float first, float step = 1) : first(first), step(step) {}
  std::vector<float> of(std::int64_t numel) const {
    std::vector<float> values;
    for (std::int64_t i = 0; i < numel; ++i) {
      values.push_back(first + static_cast<float>(i) * step);
    }
    return values;
  }

  float first;
  float step;
};

/// The other ranks and the switch: x becomes 2x + 1.
class Client {
 public:
  static constexpr float sumOf(float x) { return 2 * x + 1; }

  using Step = std::function<void(std::int64_t first, std::int64_t last)>;

  /// `fails`: the part that fails, or none.
  void reset(std::int64_t partNumel = INT64_MAX, int fails = -1) {
    next_ = turn_ = abandoned_ = 0;
    partNumel_ = partNumel;
    fails_ = fails;
    records_ = true;
    read_.clear();
  }

  /// The values of all parts, as they were read.
  const std::vector<float>& read() const { return read_; }

  std::uint64_t partNumel() const { return static_cast<std::uint64_t>(partNumel_.load()); }

  std::uint64_t takeSequence() noexcept { return next_++; }

  void abandon(std::uint64_t sequence) noexcept {
    SimulatedDevice::instance().note("a sum is given up");
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == sequence; });
    ++turn_;
    ++abandoned_;
    changed_.notify_all();
  }

  /// From here on no call can be recorded.
  void loseRecords() { records_ = false; }

  /// Records a call that has succeeded.
  void record() const {
    if (!records_) {
      throw std::out_of_range("the flight recorder has failed");
    }
  }

  std::uint64_t taken() const { return next_; }
  std::uint64_t abandoned() const { return abandoned_; }

  /// Two parts are on the way at most. Their memory is read and written when the second is.
  template <typename Place>
  void reduce(std::uint64_t sequence, std::int64_t numel, const Step& before, const Step& after,
              const Place& place) {
    auto& device = SimulatedDevice::instance();
    device.enter();
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == sequence; });
    ++turn_;
    changed_.notify_all();
    lock.unlock();
    const auto size = std::min(partNumel_.load(), numel);
    const auto endOf = [&](std::int64_t part) { return std::min((part + 1) * size, numel); };
    std::vector<float*> memory;
    const auto finish = [&](int part) {
      sum(memory[part], memory[part] + endOf(part) - part * size, part == fails_);
      after(part * size, endOf(part));
    };
    int ready = 0;
    int finished = 0;
    for (; ready * size < numel; ++ready) {
      before(ready * size, endOf(ready));
      memory.push_back(place(ready * size, endOf(ready)));
      if (ready > finished) {
        finish(finished++);
      }
    }
    finish(finished);
  }

 private:
  void sum(float* first, float* last, bool fails) {
    auto& device = SimulatedDevice::instance();
    device.elapse();
    device.note("the client reads");
    std::vector<float> sums(first, last);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      read_.insert(read_.end(), sums.begin(), sums.end());
    }
    if (fails) {
      throw std::runtime_error("the client has failed");
    }
    device.elapse();
    std::transform(sums.begin(), sums.end(), sums.begin(), sumOf);
    device.note("the client writes");
    std::copy(sums.begin(), sums.end(), first);
    device.elapse();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t turn_ = 0;
  std::vector<float> read_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> abandoned_{0};
  std::atomic<std::int64_t> partNumel_{INT64_MAX};
  std::atomic<int> fails_{-1};
  std::atomic<bool> records_{true};
};

constexpr Values sumOf(Values x) { return {Client::sumOf(x.first), 2 * x.step}; }

Client& client() {
  static auto* const instance = new Client;
  return *instance;
}

/// The variant of the plugin that runs. It is another one only while no thread of the plugin works.
std::string& variant() {
  static auto* const instance = new std::string;
  return *instance;
}

/// Asked by the plugin's files where the variants differ.
bool variantIs(const char* name) { return variant() == name; }

extern "C" bool (*simulatedCapture)(const void* stream);

#include "all_sources.inc"
#include "client.inc"
#include "variants.inc"

// No Python is in this program, and the plugin asks whether there is.
int Py_IsInitialized() { return 0; }
int PyGILState_Check() { return 0; }
PyThreadState* PyEval_SaveThread() { return nullptr; }
void PyEval_RestoreThread(PyThreadState* /*state*/) {}

c10::intrusive_ptr<switchml_delegate::Group> switchml_delegate::makeGloo(
    const c10::intrusive_ptr<c10d::Store>& /*store*/, int /*rank*/, int /*size*/,
    std::chrono::milliseconds /*timeout*/) {
  throw std::logic_error("no group here fails over");
}

namespace {

using Work = c10::intrusive_ptr<c10d::Work>;

constexpr std::int64_t kNumel = 6;
constexpr c10::DeviceIndex kHome = 1;  // of the main thread: that of another is 0 at first

/// One run of a scenario.
class Run {
 public:
  Run() : group_(switchml_delegate::group(2)) { begin(kHome); }

  /// The group has this many ranks.
  void be(int size) { group_ = switchml_delegate::group(size); }

  /// The main thread's device, from here on.
  void begin(c10::DeviceIndex device) { registration::current() = {device, -1, {}}; }

  at::Tensor tensor(std::int64_t numel = kNumel, c10::DeviceIndex device = kHome) {
    return registration::empty(numel, device);
  }

  void fill(const at::Tensor& tensor, Values values) {
    device_.enqueue(registration::guard().getStream(tensor.device()), "produce",
                    [elements = registration::Elements(tensor), values] {
                      const auto all = values.of(elements.sizes.at(0));
                      std::copy(all.begin(), all.end(), static_cast<float*>(elements.data));
                    });
  }

  at::Tensor filled(Values values, std::int64_t numel = kNumel) {
    const auto made = tensor(numel);
    fill(made, values);
    return made;
  }

  Work allreduce(const at::Tensor& tensor, std::chrono::milliseconds timeout = {}) {
    std::vector<at::Tensor> tensors{tensor};
    c10d::AllreduceOptions options;
    options.timeout = timeout;
    return group_->allreduce(tensors, options);
  }

  /// The target gets the first half of the sum of the source.
  Work reduceScatter(at::Tensor target, at::Tensor source) {
    return group_->_reduce_scatter_base(target, source);
  }

  Work reduceScatter(std::vector<at::Tensor> targets, std::vector<at::Tensor> sources) {
    return coalesced(*group_, targets, sources, 0);
  }

  void abort() {
    switchml_delegate::Inside::abort(
        static_cast<switchml_delegate::ProcessGroupSwitchML&>(*group_));
  }

  /// The group has other ranks from here on.
  void reconfigure() {
    switchml_delegate::Inside::reconfigure(
        static_cast<switchml_delegate::ProcessGroupSwitchML&>(*group_));
  }

  /// Sums all that was asked for until now, while this thread does nothing.
  void sum() {
    device_.open(true);
    switchml_delegate::ProcessGroupSwitchML::finishAll();
    device_.open(false);
  }

  /// Sums, and waits for the sum.
  void finish(const Work& work) {
    sum();
    work->wait();
  }

  /// The elements are to have these values when the current stream has come to it.
  void expect(const at::Tensor& tensor, Values values) {
    auto found = std::make_shared<std::vector<float>>();
    device_.enqueue(registration::guard().getStream(tensor.device()), "consume",
                    [elements = registration::Elements(tensor), found] {
                      const auto dense = elements.onHost().contiguous();
                      found->assign(dense.data_ptr<float>(), dense.data_ptr<float>() + kNumel);
                    });
    expected_.emplace_back(std::move(found), values);
  }

  /// The memory of a tensor is used again.
  void reuse() {
    const auto next = filled(5);
    expect(next, 5);
  }

  /// Expects the client to read these values, one after another.
  void expectRead(Values values) { read_ = std::make_unique<Values>(values); }

  void expect(bool right) { right_ = right_ && right; }

  /// Tensors of other devices are to be summed as well.
  void expectDevices(std::set<int> devices) { devices_ = std::move(devices); }

  /// This many sums are to be given up before the client has them.
  void expectAbandoned(std::uint64_t count) { abandoned_ = count; }

  /// Makes one stream wait for all that is on the other now.
  void after(const c10::Stream& later, const c10::Stream& earlier) {
    device_.block(device_.record(earlier), later);
  }

  /// The call before this one is not to wait for what the device has to do.
  void returned() { free_ += device_.finished() || device_.waits() > 0 ? 0 : 1; }
  bool neverWaited() const { return free_ == 2; }

  /// True where all was as expected.
  bool ended() {
    group_.reset();
    switchml_delegate::ProcessGroupSwitchML::finishAll();  // threads in callbacks have tensors
    device_.waitForAll();
    const auto& read = client().read();
    const auto numel = static_cast<std::int64_t>(read.size());
    return right_ && !device_.anyLive() && device_.contexts() == devices_ &&
           registration::guard().taken(kHome) <= 2 && client().abandoned() == abandoned_ &&
           std::all_of(expected_.begin(), expected_.end(),
                       [](const auto& pair) { return *pair.first == pair.second.of(kNumel); }) &&
           (read_ == nullptr || read == read_->of(numel));
  }

 private:
  template <typename Group>
  static auto coalesced(Group& group, std::vector<at::Tensor>& targets,
                        std::vector<at::Tensor>& sources, int /*preferred*/)
      -> decltype(group.reduce_scatter_tensor_coalesced(targets, sources)) {
    return group.reduce_scatter_tensor_coalesced(targets, sources);
  }

  /// Not every torch has that. The last of several works is the last one that is done.
  template <typename Group>
  static Work coalesced(Group& group, std::vector<at::Tensor>& targets,
                        std::vector<at::Tensor>& sources, long /*otherwise*/) {
    Work work;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      work = group._reduce_scatter_base(targets[i], sources[i]);
    }
    return work;
  }

  AnyGroup group_;
  SimulatedDevice& device_ = SimulatedDevice::instance();
  std::vector<std::pair<std::shared_ptr<std::vector<float>>, Values>> expected_;
  bool right_ = true;
  std::uint64_t abandoned_ = 0;
  std::unique_ptr<const Values> read_;  // null: of no interest
  std::set<int> devices_{kHome};
  int free_ = 0;
};

constexpr Values kSum = sumOf(Values(3));

/// Waits for the sum, as most programs do.
void waiting(Run& run) {
  const auto tensor = run.filled(3);
  const auto work = run.allreduce(tensor);
  run.returned();
  run.finish(work);
  run.returned();
  run.expect(tensor, kSum);
}

/// No memory can be pinned.
void pageable(Run& run) {
  SimulatedDevice::instance().refusePinned();
  waiting(run);
}

/// Who waits is there before the sum is.
void early(Run& run) {
  const auto tensor = run.filled(3);
  const auto work = run.allreduce(tensor);
  run.returned();
  SimulatedDevice::instance().open(true);
  work->wait();
  run.sum();
  run.returned();
  run.expect(tensor, kSum);
}

/// The sum is summed.
void again(Run& run) {
  const auto tensor = run.filled(3);
  for (int time = 0; time < 2; ++time) {
    const auto work = run.allreduce(tensor);
    run.finish(work);
  }
  run.expect(tensor, sumOf(kSum));
}

/// The tensor's own stream, the producer's and the consumer's are three.
void streams(Run& run) {
  auto tensor = run.tensor();
  Work work;
  {
    const c10::StreamGuard producer(streamOf(kHome, 101));
    run.fill(tensor, 3);
    work = run.allreduce(tensor);
  }
  run.sum();
  {
    const c10::StreamGuard consumer(streamOf(kHome, 102));
    work->wait();
    run.expect(tensor, kSum);
  }
  run.after(streamOf(kHome, 0), streamOf(kHome, 102));  // before its memory is another's
}

/// The tensor is on a device that is not the current one.
void elsewhere(Run& run) {
  run.begin(0);
  waiting(run);
}

/// Tensors of two devices, each of which has streams of its own.
void devices(Run& run) {
  run.expectDevices({0, kHome});
  for (const c10::DeviceIndex device : {kHome, c10::DeviceIndex{0}}) {
    run.begin(device);
    const auto tensor = run.tensor(kNumel, device);
    run.fill(tensor, 3);
    run.finish(run.allreduce(tensor));
    run.expect(tensor, kSum);
    SimulatedDevice::instance().waitForAll();  // else there are too many orders
  }
}

/// Every other element of a larger tensor.
void strided(Run& run) {
  const auto whole = run.filled(3, 2 * kNumel);
  const auto tensor = registration::elementsOf(whole.storage(), kNumel, 2, 0);
  const auto rest = registration::elementsOf(whole.storage(), kNumel, 2, 1);
  const auto work = run.allreduce(tensor);
  run.finish(work);
  run.expect(tensor, sumOf(Values(3, 2)));
  run.expect(rest, {4, 2});
}

void scattered(Run& run) {
  const auto source = run.tensor(2 * kNumel);
  const auto target = run.tensor();
  run.fill(source, 3);
  run.fill(target, 5);
  const auto work = run.reduceScatter(target, source);
  run.finish(work);
  run.expect(target, kSum);
  run.expect(source, 3);
}

/// Nobody waits, and the memory of both is used again.
void scatteredAway(Run& run) {
  {
    const auto source = run.tensor(2 * kNumel);
    const auto target = run.tensor();
    run.fill(source, 3);
    const auto work = run.reduceScatter(target, source);
    run.sum();
  }
  run.reuse();
}

/// Two tensors are one row.
void coalesced(Run& run) {
  const std::vector<at::Tensor> sources{run.filled(3, 2 * kNumel),
                                        run.filled(3 + 2 * kNumel, 2 * kNumel)};
  const std::vector<at::Tensor> targets{run.tensor(), run.tensor()};
  run.finish(run.reduceScatter(targets, sources));
  run.expect(targets[0], kSum);
  run.expect(targets[1], sumOf(Values(3 + 2 * kNumel)));
}

/// Nobody waits, and the memory of all is used again.
void coalescedAway(Run& run) {
  {
    const auto target = run.tensor();
    const auto source = run.filled(3, 2 * kNumel);
    const auto work = run.reduceScatter({target, run.tensor()}, {source, source});
    run.sum();
  }
  run.reuse();
}

/// The row of another scenario goes in parts of so many elements. Its values have this distance.
template <void (*scenario)(Run&), std::int64_t numel, int step = 1>
void parts(Run& run) {
  client().reset(numel);
  scenario(run);
  run.expectRead({3, step});
}

/// The target lies in the source, but not where its elements come from. What was there is summed.
void partsAmongSources(Run& run) {
  client().reset(4);
  const auto source = run.filled(3, 2 * kNumel);
  const auto target = registration::elementsOf(source.storage(), kNumel, 1, kNumel);
  const auto work = run.reduceScatter(target, source);
  run.finish(work);
  run.expect(target, kSum);
  run.expectRead(3);
}

/// The one rank's target begins where its source does, and is every fourth element from there on:
/// its first part lies in the last one of the source.
void partsAmongOne(Run& run) {
  client().reset(kNumel / 3);
  const auto whole = run.filled(3, 4 * kNumel);
  const auto source = registration::elementsOf(whole.storage(), kNumel, 1, 0);
  const auto target = registration::elementsOf(whole.storage(), kNumel, 4, 0);
  run.be(1);
  const auto work = run.reduceScatter(target, source);
  run.finish(work);
  run.expect(target, kSum);
  run.expectRead(3);
}

void future(Run& run) {
  const auto tensor = run.filled(3);
  const auto work = run.allreduce(tensor);
  run.sum();
  work->getFuture()->wait();
  run.expect(tensor, kSum);
}

/// As a communication hook of DistributedDataParallel: what reads the sum is queued by a callback.
void callback(Run& run) {
  const auto tensor = run.filled(3);
  const auto work = run.allreduce(tensor);
  const auto called = work->getFuture()->then(
      [&](c10::ivalue::Future& sum) {
        run.expect(sum.value().toTensorVector().at(0), kSum);
        return sum.value();
      },
      work->getFuture()->elementType());
  run.sum();
  called->wait();
  run.expect(tensor, kSum);
}

/// Nobody waits, and the memory is used again.
void dropped(Run& run) {
  {
    const auto tensor = run.filled(3);
    run.allreduce(tensor);
  }
  run.sum();
  run.reuse();
}

/// Does not wait, but keeps the tensor until it is summed.
void unwaited(Run& run) {
  {
    const auto tensor = run.filled(3);
    const auto work = run.allreduce(tensor);
    run.sum();
  }
  run.reuse();
}

/// An allreduce of the tensor, of which the client is to fail a part.
void fail(Run& run, const at::Tensor& tensor) {
  run.fill(tensor, 3);
  const auto work = run.allreduce(tensor);
  run.sum();
  if (thrown([&] { work->wait(); }).empty()) {
    die("the client has not failed");
  }
}

void failed(Run& run) {
  client().reset(INT64_MAX, 0);
  {
    const auto tensor = run.tensor();
    fail(run, tensor);
    run.expect(tensor, 3);
  }
  run.reuse();
}

/// The second part fails: what the tensor holds is not said, but it is the caller's again.
void partsFailed(Run& run) {
  client().reset(kNumel / 2, 1);
  const auto tensor = run.tensor();
  fail(run, tensor);
  run.fill(tensor, 5);
  run.expect(tensor, 5);
}

/// The producer's stream, which does nothing until it is let go.
const c10::Stream kHeld = streamOf(kHome, 101);

/// A tensor whose values the device does not make.
at::Tensor heldTensor(Run& run) {
  const auto tensor = run.tensor();
  SimulatedDevice::instance().hold(kHeld);
  const c10::StreamGuard producer(kHeld);
  run.fill(tensor, 3);
  return tensor;
}

Work heldAllreduce(Run& run, const at::Tensor& tensor, std::chrono::milliseconds timeout = {}) {
  const c10::StreamGuard producer(kHeld);
  return run.allreduce(tensor, timeout);
}

/// Returns when the host waits for the stream that is held.
void meetHeld(const Work& work) {
  while (!SimulatedDevice::instance().awaited(kHeld) && !work->isCompleted()) {
    std::this_thread::yield();
  }
}

constexpr int kMany = 100;  // questions of a host that does not give up

/// The work is to end without its values, and its sum to be given up: the host does not ask for
/// them again and again.
void expectFailed(Run& run, const Work& work, const std::string& why) {
  auto& device = SimulatedDevice::instance();
  const auto asked = device.asked();
  while (!work->isCompleted() && device.asked() < asked + kMany) {
    std::this_thread::yield();
  }
  run.expect(work->isCompleted());
  device.letGo(kHeld);
  run.sum();
  run.expect(thrown([&] { work->wait(); }).find(why) != std::string::npos);
  run.expect(client().abandoned() == 1);
  run.expectAbandoned(1);
}

/// The values are not there in time.
void timedOut(Run& run) {
  constexpr std::chrono::milliseconds kLimit(20);
  const auto tensor = heldTensor(run);
  const auto work = heldAllreduce(run, tensor, kLimit);
  SimulatedDevice::instance().open(true);
  meetHeld(work);
  std::this_thread::sleep_for(kLimit);
  expectFailed(run, work, "within " + std::to_string(kLimit.count()) + " ms");
  run.after(streamOf(kHome, 0), kHeld);
  run.expect(tensor, 3);
}

/// The group is aborted while the host waits.
void aborted(Run& run) {
  const auto tensor = heldTensor(run);
  const auto work = heldAllreduce(run, tensor, std::chrono::seconds(5));
  SimulatedDevice::instance().open(true);
  meetHeld(work);
  const auto asked = SimulatedDevice::instance().asked();
  run.abort();
  run.expect(SimulatedDevice::instance().asked() < asked + kMany);
  expectFailed(run, work, switchml_delegate::kGroupAborted);
  run.after(streamOf(kHome, 0), kHeld);
  run.expect(tensor, 3);
}

/// A group that was aborted has ranks again.
void rejoined(Run& run) {
  run.abort();
  run.reconfigure();
  const auto tensor = run.filled(3);
  const auto why = thrown([&] { run.finish(run.allreduce(tensor)); });
  run.expect(why.empty());
  run.expect(tensor, kSum);
}

/// The sum is there, and its record is not.
void unrecorded(Run& run) {
  client().loseRecords();
  const auto tensor = run.filled(3);
  const auto work = run.allreduce(tensor);
  run.sum();
  run.expect(work->getFuture()->completed());
  run.expect(thrown([&] { work->wait(); }).empty());
  run.expect(tensor, kSum);
}

/// A stream that is captured. CUDA captures no default stream.
const c10::Stream kCaptured = streamOf(kHome, 102);

/// The call is made while its stream is captured.
void captured(Run& run) {
  auto& device = SimulatedDevice::instance();
  const auto tensor = run.filled(3);
  device.beginCapture(kCaptured);
  {
    const c10::StreamGuard current(kCaptured);
    run.expect(!thrown([&] { run.allreduce(tensor); }).empty());
  }
  run.sum();
  run.expect(device.endCapture());
  run.expect(client().taken() == 0);
  waiting(run);
}

/// The call is waited for while its stream is captured.
void capturedWait(Run& run) {
  auto& device = SimulatedDevice::instance();
  const auto tensor = run.filled(3);
  const auto work = run.allreduce(tensor);
  run.sum();
  device.beginCapture(kCaptured);
  {
    const c10::StreamGuard current(kCaptured);
    run.expect(!thrown([&] { work->wait(); }).empty());
  }
  run.expect(device.endCapture());
  work->wait();
  run.expect(tensor, kSum);
}

/// A call that not every torch has.
template <typename AnyWork>
auto blocked(Run& run, AnyWork* /*unused*/)
    -> decltype(std::declval<AnyWork&>().blockCurrentStream()) {
  const auto tensor = run.filled(3);
  const c10::intrusive_ptr<AnyWork> work = run.allreduce(tensor);
  run.sum();
  work->blockCurrentStream();
  run.expect(tensor, kSum);
}

[[maybe_unused]] void blocked(Run& run, ...) { waiting(run); }

const std::vector<std::pair<const char*, void (*)(Run&)>> kScenarios{
    {"waiting", waiting},
    {"pageable", pageable},
    {"early", early},
    {"again", again},
    {"streams", streams},
    {"elsewhere", elsewhere},
    {"devices", devices},
    {"strided", strided},
    {"scattered", scattered},
    {"scattered_away", scatteredAway},
    {"coalesced", coalesced},
    {"coalesced_away", coalescedAway},
    {"parts", parts<waiting, kNumel / 3>},  // two are on the way
    {"parts_of_strided", parts<strided, kNumel / 2, 2>},
    {"parts_scattered", parts<scattered, kNumel + 1>},
    {"parts_coalesced", parts<coalesced, kNumel + 4>},
    {"parts_among_sources", partsAmongSources},
    {"parts_among_one", partsAmongOne},
    {"parts_failed", partsFailed},
    {"future", future},
    {"callback", callback},
    {"dropped", dropped},
    {"unwaited", unwaited},
    {"failed", failed},
    {"timed_out", timedOut},
    {"aborted", aborted},
    {"rejoined", rejoined},
    {"unrecorded", unrecorded},
    {"captured", captured},
    {"captured_wait", capturedWait},
    {"blocked", [](Run& run) { blocked(run, static_cast<c10d::Work*>(nullptr)); }},
};

void begin(Order& order) {
  SimulatedDevice::instance().reset(order);
  registration::guard().restart();
  client().reset();
}

/// Every order of a scenario, up to the first wrong one.
void explore(const std::pair<const char*, void (*)(Run&)>& scenario) {
  auto& device = SimulatedDevice::instance();
  EveryOrder order;
  int orders = 0;
  int wrong = 0;
  int free = 0;
  int overlapped = 0;
  do {
    begin(order);
    Run run;
    scenario.second(run);
    ++orders;
    free += run.neverWaited() ? 1 : 0;
    if (!run.ended() && ++wrong == 1) {
      std::fprintf(stderr, "%s, %s:\n%s", variant().c_str(), scenario.first,
                   device.history().c_str());
    }
    const auto history = device.history();
    overlapped += history.find("copy from") < history.rfind("copy to") ? 1 : 0;
  } while (wrong == 0 && order.next());
  std::printf("%s %s %d %d %d %d\n", variant().c_str(), scenario.first, orders, wrong, free,
              overlapped);
}

/// Many allreduces in flight, on several streams; some are waited for, in any way, some are not.
void crowd(Run& run, RandomOrder& order) {
  struct Job {
    at::Tensor tensor;
    Work work;
    Values values;
  };
  const auto anyStream = [&order] { return streamOf(kHome, 100 + order.choose(3)); };
  std::deque<Job> jobs;
  for (int number = 0; number < 40; ++number) {
    const c10::StreamGuard current(anyStream());
    if (jobs.size() < 4 && order.choose(3) > 0) {
      const Values values(static_cast<float>(number));
      const auto tensor = run.filled(values);
      jobs.push_back({tensor, run.allreduce(tensor), values});
    } else if (!jobs.empty()) {
      const auto job = std::move(jobs.front());
      jobs.pop_front();
      registration::guard().recordDataPtrOnStream(
          job.tensor.storage().data_ptr(), registration::guard().getStream(job.tensor.device()));
      switch (order.choose(3)) {
        case 0:
          job.work->wait();
          run.expect(job.tensor, sumOf(job.values));
          break;
        case 1:
          job.work->getFuture()->wait();
          run.expect(job.tensor, sumOf(job.values));
          break;
        default:
          break;
      }
    }
  }
}

/// Seventeen calls are in flight, and the last one's values are made after the sums of the others:
/// nobody is to wait for what a later call waits for.
void queued(Run& run) {
  std::vector<std::pair<at::Tensor, Work>> calls;
  for (int number = 0; number < 16; ++number) {
    const c10::StreamGuard current(streamOf(kHome, 102 + number % 2));
    const auto tensor = run.filled(static_cast<float>(number));
    calls.emplace_back(tensor, run.allreduce(tensor));
  }
  const auto last = heldTensor(run);
  const auto late = heldAllreduce(run, last);
  SimulatedDevice::instance().open(true);
  for (std::size_t number = 0; number < calls.size(); ++number) {
    run.expect(thrown([&] { calls[number].second->wait(); }).empty());
    run.expect(calls[number].first, sumOf(Values(static_cast<float>(number))));
  }
  meetHeld(late);
  SimulatedDevice::instance().letGo(kHeld);
  run.expect(thrown([&] { late->wait(); }).empty());
  run.expect(last, kSum);
  for (const int other : {102, 103}) {
    run.after(streamOf(kHome, other), streamOf(kHome, 0));
  }
}

/// True where one run with many calls before a slow one was right.
bool queue(unsigned seed) {
  RandomOrder order(seed);
  begin(order);
  Run run;
  queued(run);
  return run.ended();
}

/// True where one run of many allreduces was right.
bool rush(unsigned seed) {
  auto& device = SimulatedDevice::instance();
  RandomOrder order(2 * seed);
  RandomOrder program(2 * seed + 1);
  begin(order);
  device.open(true);
  std::atomic<bool> over{false};
  std::thread running([&] {
    while (!over) {
      device.elapse();
      std::this_thread::yield();
    }
  });
  Run run;
  crowd(run, program);
  const bool right = run.ended();
  over = true;
  running.join();
  return right;
}

/// True where a sum that fails has an end, also where its first part is never copied back.
bool failsOnTime() {
  RandomOrder order(0);
  begin(order);
  auto& device = SimulatedDevice::instance();
  Run run;
  {
    client().reset(kNumel / 2, 1);
    const auto tensor = run.tensor();
    const auto back = switchml_delegate::CopyStreams::of(tensor.device()).toDevice;
    device.hold(back);
    fail(run, tensor);
    device.letGo(back);
  }
  return run.ended();
}

/// True where a torch whose devices cannot be asked has CUDA's answer.
bool asksCuda() {
  RandomOrder order(0);
  begin(order);
  auto& device = SimulatedDevice::instance();
  const auto answer = [](c10::StreamId id) {
    return switchml_delegate::isCudaCapturing(streamOf(kHome, id));
  };
  device.beginCapture(streamOf(kHome, 7));
  const bool during = answer(7) && !answer(8);
  device.endCapture();
  return during && !answer(7);
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> given(arguments + 1, arguments + count);
  simulatedCapture = [](const void* stream) {
    return SimulatedDevice::instance().capturing(*static_cast<const c10::Stream*>(stream));
  };
  if (!given.empty() && given[0] == "orders") {
    for (auto one = given.begin() + 1; one != given.end(); ++one) {
      const auto end = one->find('=');
      const auto listed = end == std::string::npos ? "" : ',' + one->substr(end + 1) + ',';
      variant() = one->substr(0, end);
      for (const auto& scenario : kScenarios) {
        if (listed.empty() || listed.find(',' + std::string(scenario.first) + ',') != listed.npos) {
          explore(scenario);
        }
      }
    }
  } else if (given == std::vector<std::string>{"capture"}) {
    std::puts(asksCuda() ? "right" : "wrong");
  } else if (given == std::vector<std::string>{"failure"}) {
    std::puts(failsOnTime() ? "right" : "wrong");
  } else if (given.size() == 3 && (given[0] == "threads" || given[0] == "queue")) {
    if (std::find(kVariants.begin(), kVariants.end(), given[1]) == kVariants.end()) {
      die("no such variant");
    }
    variant() = given[1];
    int wrong = 0;
    for (unsigned seed = 0; seed < std::stoul(given[2]); ++seed) {
      wrong += (given[0] == "threads" ? rush(seed) : queue(seed)) ? 0 : 1;
    }
    std::printf("%d wrong\n", wrong);
  } else {
    die("say orders, capture or failure, or threads or queue, a variant and a number");
  }
}
