#include "SwitchMLDelegate.hpp"

namespace switchml_torch {
namespace {

constexpr std::chrono::milliseconds kStopAtExit = std::chrono::seconds(5);
constexpr std::chrono::milliseconds kExit = std::chrono::minutes(1);  // for what others do then
std::atomic<bool> exiting{false};
int exitCode = 0;  // once it exits

std::atomic<Delegate*> newest{nullptr};
std::atomic<Delegate*> before{nullptr};  // of the process that this one was forked from

[[maybe_unused]] const int forks = pthread_atfork(nullptr, nullptr, [] {
  if (auto* const parent = newest.exchange(nullptr); parent != nullptr) {
    before = parent;
  }
});

}  // namespace

Board board;

Delegate::Delegate(const Delegate* parent)
    : library(parent == nullptr ? nullptr : &parent->library),
      state(parent == nullptr ? nullptr : &parent->state) {}

Delegate& Delegate::get() {
  auto* found = newest.load(std::memory_order_acquire);
  if (found == nullptr) {
    std::unique_ptr<Delegate> made(new Delegate(before));
    if (newest.compare_exchange_strong(found, made.get())) {
      found = made.release();
    }
  }
  return *found;
}

Capabilities Delegate::start(const switchml::Config& config, std::chrono::milliseconds limit) {
  const bool first = library.epoch() == 0;
  const auto longest = std::min(Library::startLimit(), limit);
  const auto begun = Library::Clock::now();
  const auto why = library.start(config, limit);
  if (first && library.epoch() != 0) {
    // After the context was made, so it runs before the context is destroyed.
    on_exit(atExit, nullptr);
  }
  if (state.broken()) {
    library.stop(library.epoch());  // the group, or the process, has ended meanwhile
  }
  auto out = why.empty() ? Capabilities() : Capabilities::unable(why);
  out.late = Library::Clock::now() - begun >= longest;
  return out;
}

/// `end` comes before the stop, which wakes those that wait for the library: their reason would be
/// another.
void Delegate::disable(const std::string& why, std::uint64_t epoch,
                       const std::function<void()>& report,
                       void (Failover::*end)(const std::string&)) {
  const bool first = state.fail(why, report);
  const auto* const group = board.delegation.load();
  if (group != nullptr && group->failover && !library.lost()) {
    ((*group->failover).*end)(why);
  }
  if (first) {
    library.stop(epoch);
    order.wake();
  }
}

void Delegate::fail(const std::string& why, std::uint64_t epoch) {
  if (epoch != library.epoch()) {
    return;
  }
  const auto print = [&] {
    const auto counted = library.packets().words();
    say(text("error: ", why, counted.empty() ? "" : " (" + counted + ")",
             "; this rank uses SwitchML no more"));
  };
  disable(why, epoch, print, &Failover::giveUp);
}

void Delegate::abandon(std::uint64_t sequence) noexcept {
  const auto* const group = board.delegation.load(std::memory_order_acquire);
  if (group != nullptr && sequence >= group->firstSequence) {
    fail(text("allreduce number ", sequence, " was dropped before it was submitted"));
  }
}

void Delegate::suspend(const std::string& why) {
  state.suspend(why);
  library.stop(library.epoch());
}

void Delegate::throwIfBroken() const {
  if (state.broken()) {
    throw std::runtime_error("SwitchML allreduce failed: " + state.get().why);
  }
}

void Delegate::raise(const std::string& why, std::uint64_t epoch) {
  fail(why, epoch);
  throwIfBroken();
  throw std::runtime_error("SwitchML allreduce failed: " + why);  // of an earlier group
}

void Delegate::printHint(const Delegation& group) {
  const auto hint = groups.hint();
  if (group.rank == 0 && !hint.empty()) {
    say(text("hint: ", hint));
  }
}

Delegate::Visit::~Visit() {
  if (exiting) {
    std::this_thread::sleep_for(kExit);
    _exit(exitCode);  // something waits for this thread
  }
}

/// The process ends here where that would hang, and in a forked child, which has none of the
/// library's threads.
void Delegate::atExit(int status, void* /*argument*/) {
  exitCode = status;
  exiting = true;
  auto& delegate = get();
  delegate.report.end();
  if (!delegate.library.lost()) {
    if (const auto* const group = board.delegation.load(); group != nullptr) {
      delegate.printHint(*group);
    }
    const auto epoch = delegate.library.epoch();
    delegate.disable(
        "the process is exiting", epoch, [] {}, &Failover::close);
    if (const auto* const group = board.delegation.load(); group != nullptr && group->heartbeat) {
      group->heartbeat->close();
    }
    if (delegate.library.stoppedWithin(kStopAtExit, epoch)) {
      return;
    }
    say("warning: the SwitchML context did not stop");
  }
  std::fflush(nullptr);
  _exit(status);
}

}  // namespace switchml_torch
