#include <pthread.h>
#include <signal.h>

#include "SwitchMLInterface.hpp"
#include "base/quietly.hpp"
#include "base/say.hpp"
#include "joining.hpp"
#include "sum/reduction.hpp"

namespace switchml_delegate {
namespace {

constexpr std::chrono::milliseconds kStopAtExit = std::chrono::seconds(5);
constexpr std::chrono::milliseconds kExit = std::chrono::minutes(1);  // for what others do then
constexpr std::chrono::seconds kFlush{2};
std::atomic<bool> exiting{false};
std::atomic<int> exitCode{0};  // once it exits
std::atomic<std::uint64_t> lastNumbers{
    0};                                    // those from here on were taken after the exit had begun
Statistics& statistics = *new Statistics;  // never destroyed; a forked child goes on with it

void endReport(int status, void* argument);
void endProcess(int status, void* argument);

/// The delegate of a process. A forked child has one of its own: a thread of the parent may have
/// held a lock of the parent's.
struct Process {
  explicit Process(const Process* before)
      : runtime(before == nullptr ? nullptr : &before->runtime) {}

  Runtime runtime;
  Groups groups;
  Claims claims;
  Report report{runtime, statistics, endReport};
};

std::atomic<Process*> newest{nullptr};
std::atomic<Process*> before{nullptr};  // of the process that this one was forked from

[[maybe_unused]] const int forks = pthread_atfork(nullptr, nullptr, [] {
  if (auto* const parent = newest.exchange(nullptr); parent != nullptr) {
    before = parent;
  }
});

/// Never destroyed: works, and the library's threads, may outlive the destruction of statics.
/// Throws std::bad_alloc in a forked child without memory; else it was made when the library was
/// opened.
Process& process() {
  auto* found = newest.load(std::memory_order_acquire);
  if (found == nullptr) {
    auto made = std::make_unique<Process>(before);
    if (newest.compare_exchange_strong(found, made.get())) {
      found = made.release();
    }
  }
  return *found;
}

/// For functions that cannot throw: null in a forked child without memory. Then it has nothing to
/// end, and its calls will raise.
Process* ownProcess() noexcept {
  Process* own = nullptr;
  quietly([&own] { own = &process(); });
  return own;
}

void endReport(int /*status*/, void* /*argument*/) {
  if (auto* const own = ownProcess(); own != nullptr) {
    own->report.end();
  }
}

/// Ends the process, with what the program has written to its streams. A thread may be inside one,
/// and keep its lock: SIGALRM ends that wait.
[[noreturn]] void endNow() {
  struct sigaction action {};
  action.sa_handler = [](int /*signal*/) { _exit(exitCode); };
  sigaction(SIGALRM, &action, nullptr);
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
  alarm(kFlush.count());
  std::fflush(nullptr);
  _exit(exitCode);
}

/// The process ends here where that would hang, and in a forked child, which has none of the
/// library's threads.
void endProcess(int status, void* /*argument*/) {
  auto* const own = ownProcess();
  exitCode = status;
  lastNumbers = own == nullptr ? 0 : own->runtime.order.take(0);
  exiting = true;
  if (own != nullptr) {
    own->report.end();
  }
  if (own != nullptr && !own->runtime.library.lost()) {
    auto& library = own->runtime.library;
    const auto epoch = library.epoch();
    library.retire();
    own->runtime.close(textOrNone([] { return "the process is exiting"; }));
    if (library.stoppedWithin(kStopAtExit, epoch)) {
      return;
    }
    quietly([] { say("warning: the SwitchML context did not stop"); });
  }
  endNow();
}

/// Keeps a call that began before the exit of the process from returning after it: a thread that
/// comes back to Python then ends the process with SIGABRT. A call that is made later, as by the
/// destructor of a static object, returns.
struct ExitBarrier {
  ~ExitBarrier() {
    if (waits && exiting) {
      std::this_thread::sleep_for(kExit);
      _exit(exitCode);  // something waits for this thread
    }
  }
  const bool waits;
};

class Face final : public Interface {
 public:
  bool delegates(const void* context) const noexcept override {
    const auto* const own = ownProcess();
    return own != nullptr && own->runtime.groupOf(context) != nullptr;
  }

  std::uint64_t takeSequence(const void* context, const Request& request) noexcept override {
    auto* const found = ownProcess();
    if (found == nullptr) {
      return 0;  // so that reduce() raises
    }
    auto& own = *found;
    const auto* const group = own.runtime.group();
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
      if (owns) {
        return own.runtime.order.take(group->jobsOf(request));
      }
      statistics.otherGroupBytes += sizeof(float) * request.numel;
    }
    ++statistics.fallbacks[owns ? why : kGroup];
    return kNoSequence;
  }

  std::uint64_t partNumel() const noexcept override {
    const auto* const own = ownProcess();
    const auto* const group = own == nullptr ? nullptr : own->runtime.group();
    return group == nullptr ? UINT64_MAX : group->settings.chunkNumel;
  }

  void reduce(std::uint64_t sequence, const Request& request, std::chrono::milliseconds limit,
              const Steps& steps) override {
    const ExitBarrier barrier{!exiting || sequence < lastNumbers};
    auto& own = process();
    if (own.runtime.library.lost()) {
      throw std::runtime_error(kForked);
    }
    const auto* const group = own.runtime.group();
    if (group == nullptr || sequence < group->firstSequence) {
      throw std::runtime_error("the process group of this allreduce has ended");
    }
    const auto begun = Library::Clock::now();
    const auto patience = std::min(limit > limit.zero() ? limit : group->timeout, kForever);
    const auto bytes = sumOverRanks(own.runtime, *group, sequence, request,
                                    {std::min(patience, group->longest), patience}, steps);
    if (bytes == 0) {
      ++statistics.failover.calls;
      return;
    }
    ++statistics.calls;
    statistics.bytes += bytes;
    statistics.times.add(Library::Clock::now() - begun);
  }

  void abandon(std::uint64_t sequence) noexcept override {
    if (auto* const own = ownProcess(); own != nullptr) {
      own->runtime.abandon(sequence);
    }
  }

  void join(const std::vector<const void*>& contexts, int rank, int size,
            std::chrono::milliseconds timeout, const Exchange& exchange) override {
    const ExitBarrier barrier{!exiting};
    auto& own = process();
    own.runtime.disown(contexts);
    try {
      joinRanks({own.runtime, own.groups, own.claims, statistics, own.report, endProcess}, contexts,
                rank, size, timeout, exchange);
    } catch (...) {
      leave(contexts.empty() ? nullptr : contexts[0]);
      throw;
    }
  }

  void leave(const void* context) noexcept override {
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
    own.claims.reservation.end();
    if (!own.runtime.library.lost()) {
      if (group->failover) {
        group->failover->leave();
      }
      if (group->heartbeat) {
        group->heartbeat->leave();
      }
    }
    own.claims.name.reset();
    // Until here a warning of another rank could have stopped the context of a new group.
    own.claims.reservation.release();
    own.report.wake();
  }

  void abort(const void* context) noexcept override {
    if (delegates(context)) {
      ownProcess()->runtime.fail(textOrNone([] { return kGroupAborted; }));
    }
  }

  std::size_t report(char* buffer, std::size_t capacity) const override {
    return copyText(process().report.json(), buffer, capacity);
  }
};

}  // namespace
}  // namespace switchml_delegate

switchml_delegate::Interface* switchml_delegate_interface(const char* digest) {
  static auto* const face = new switchml_delegate::Face;
  switchml_delegate::process();
  return std::strcmp(digest, SWITCHML_DELEGATE_DIGEST) == 0 ? face : nullptr;
}
