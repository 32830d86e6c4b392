#include "sum/jobs.hpp"

#include <algorithm>
#include <utility>

namespace switchml_delegate {

Jobs::Entry* Jobs::find(std::uint64_t job) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [job](const Entry& entry) { return entry.number == job; });
  return found == entries_.end() ? nullptr : &*found;
}

Jobs::Entry* Jobs::oldest() {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [](const Entry& entry) { return entry.end == End::kNone; });
  return found == entries_.end() ? nullptr : &*found;
}

std::uint64_t Jobs::add(Memory memory) {
  const MutexLock lock(mutex_);
  const auto turn = oldest() == nullptr ? Clock::now() : Clock::time_point::max();
  entries_.push_back({added_, std::move(memory), turn});
  return added_++;
}

void Jobs::end(std::uint64_t job, End end) noexcept {
  {
    const MutexLock lock(mutex_);
    const auto now = Clock::now();
    if (auto* const ended = find(job); ended != nullptr) {
      ended->end = end;
      ended->turn = std::min(ended->turn, now);
    }
    if (auto* const next = oldest(); next != nullptr) {
      next->turn = std::min(next->turn, now);
    }
  }
  changed_.notify_all();
}

Jobs::Clock::time_point Jobs::turn(std::uint64_t job) {
  MutexLock lock(mutex_);
  auto turn = Clock::time_point::max();
  changed_.wait(lock, [&]() REQUIRES(mutex_) {
    const auto* const entry = find(job);
    turn = entry == nullptr ? turn : entry->turn;
    return entry == nullptr || aborted_ || turn != Clock::time_point::max();
  });
  return std::min(turn, Clock::now());
}

Jobs::End Jobs::wait(std::uint64_t job, Clock::time_point deadline,
                     const std::function<bool()>& isLost) {
  constexpr auto kPoll = std::chrono::seconds(1);
  Memory released;  // by this thread, after the lock
  MutexLock lock(mutex_);
  auto end = End::kNone;
  const auto isOver = [&]() REQUIRES(mutex_) {
    const auto* const entry = find(job);
    end = entry == nullptr ? End::kNone : entry->end;
    return entry == nullptr || aborted_ || end != End::kNone;
  };
  for (bool waits = true; waits;) {
    const auto next = std::min(deadline, Clock::now() + kPoll);
    waits = !changed_.wait_until(lock, next, isOver);
    if (waits) {
      lock.unlock();
      waits = Clock::now() < deadline && !isLost();
      lock.lock();
    }
  }
  isOver();
  if (end == End::kFinished) {
    auto* const finished = find(job);
    released.swap(finished->memory);
    entries_.erase(entries_.begin() + (finished - entries_.data()));
  }
  return end;
}

void Jobs::abort() noexcept {
  {
    const MutexLock lock(mutex_);
    aborted_ = true;
  }
  changed_.notify_all();
}

bool Jobs::idle() noexcept {
  const MutexLock lock(mutex_);
  return std::all_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.end == End::kFinished; });
}

void Jobs::release() noexcept {
  for (Memory released;; released = {}) {  // by this thread, without the lock
    const MutexLock lock(mutex_);
    const auto found = std::find_if(entries_.begin(), entries_.end(),
                                    [](const Entry& entry) { return entry.memory != Memory(); });
    if (found == entries_.end()) {
      return;
    }
    released.swap(found->memory);
  }
}

}  // namespace switchml_delegate
