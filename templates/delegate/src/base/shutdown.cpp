#include "base/shutdown.hpp"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/quietly.hpp"
#include "say.hpp"

namespace switchml_delegate {

Shutdown::Barrier::~Barrier() {
  if (holds_ && shutdown_.state_ == State::kExiting) {
    std::this_thread::sleep_for(shutdown_.limits_.held);
    _exit(exitStatus_);
  }
}

Shutdown::Barrier Shutdown::barrier(std::uint64_t sequence) const noexcept {
  return {*this, state_ != State::kExiting || sequence < nextSequence_};
}

void Shutdown::metricsStarted() noexcept { schedule(); }

void Shutdown::contextStarts() noexcept {
  auto before = State::kWithoutContext;
  state_.compare_exchange_strong(before, State::kWithContext);
  schedule();
}

void Shutdown::schedule() noexcept {
  on_exit([](int status, void* self) { static_cast<Shutdown*>(self)->run(status); }, this);
}

void Shutdown::run(int status) noexcept {
  auto* const own = find_();
  const auto found = state_.load();
  if (found == State::kExiting) {
    return;
  }
  if (found == State::kWithContext) {
    exitStatus_ = status;
    nextSequence_ = own == nullptr ? 0 : own->nextSequence();
    state_ = State::kExiting;
  }
  if (own != nullptr) {
    own->writeLastMetrics(limits_.metrics);
  }
  if (found == State::kWithoutContext) {
    return;
  }
  if (own != nullptr && own->ownsContext()) {
    if (own->stop(limits_.stop)) {
      return;
    }
    quietly([] { say("warning: the SwitchML context did not stop"); });
  }
  endNow();
}

void Shutdown::endNow() const noexcept {
  struct sigaction action {};
  action.sa_handler = [](int /*signal*/) { _exit(exitStatus_); };
  sigaction(SIGALRM, &action, nullptr);
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
  using std::chrono::microseconds;
  const auto limit = std::chrono::duration_cast<microseconds>(limits_.flush).count();
  constexpr auto kSecond = microseconds(std::chrono::seconds(1)).count();
  itimerval timer{};
  timer.it_value.tv_sec = limit / kSecond;
  timer.it_value.tv_usec = limit % kSecond;
  setitimer(ITIMER_REAL, &timer, nullptr);
  std::fflush(nullptr);
  _exit(exitStatus_);
}

}  // namespace switchml_delegate
