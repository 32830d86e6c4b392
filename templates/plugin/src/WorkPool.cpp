#include "WorkPool.hpp"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "base/thread.hpp"

namespace switchml_delegate {

WorkPool::WorkPool(std::size_t slots) : state_(std::make_shared<State>(slots)) {}

WorkPool::~WorkPool() {
  if (forked()) {
    // Leaked: the threads are the parent's, and the mutex may be locked for good.
    static_cast<void>(new std::shared_ptr<State>(std::move(state_)));
    return;
  }
  state_->drain();
  for (auto& thread : state_->stop()) {
    thread.join();
  }
}

void WorkPool::submit(Job job) {
  if (forked()) {
    throw std::runtime_error("the threads are those of the process that this was forked from");
  }
  state_->push(std::move(job));
}

void WorkPool::drain() {
  if (!forked()) {
    state_->drain();
  }
}

bool WorkPool::forked() const { return state_->forked(); }

void WorkPool::Slot::release() noexcept {
  if (held_) {
    held_ = false;
    state_.releaseSlot();
  }
}

WorkPool::State::State(std::size_t slots) : slots_(slots), pid_(getpid()) {}

bool WorkPool::State::forked() const { return pid_ != getpid(); }

void WorkPool::State::push(Job job) {
  const MutexLock lock(mutex_);
  queue_.push_back(std::move(job));
  try {
    provideThread();
  } catch (const std::exception&) {  // no thread, or no memory for one
    if (slotsInUse_ == 0) {
      queue_.pop_back();
      throw;
    }
  }
}

void WorkPool::State::releaseSlot() noexcept {
  const MutexLock lock(mutex_);
  --slotsInUse_;
  released_.notify_all();
  try {
    provideThread();
  } catch (const std::exception&) {
    // This thread takes the next job from the queue itself when its own job has returned.
  }
}

void WorkPool::State::drain() {
  MutexLock lock(mutex_);
  released_.wait(lock,
                 [this]() REQUIRES(mutex_) { return queue_.empty() && slotsInUse_ == idle_; });
}

void WorkPool::State::waitUntilIdle(std::chrono::milliseconds limit) {
  MutexLock lock(mutex_);
  released_.wait_for(lock, limit,
                     [this]() REQUIRES(mutex_) { return queue_.empty() && busy_.empty(); });
}

std::list<std::thread> WorkPool::State::stop() {
  const MutexLock lock(mutex_);
  stopping_ = true;
  submitted_.notify_all();
  for (const auto id : busy_) {
    const auto thread = find(id);
    thread->detach();
    threads_.erase(thread);
  }
  return std::exchange(threads_, {});
}

void WorkPool::State::provideThread() {
  if (queue_.size() <= idle_) {
    submitted_.notify_one();
  } else if (slotsInUse_ < slots_) {
    busy_.reserve(threads_.size() + 1);  // the thread itself must not run out of memory
    std::list<std::thread> started(1);
    started.back() = startThread("swml-plugin", [state = shared_from_this()] { state->work(); });
    threads_.splice(threads_.end(), started);
    ++slotsInUse_;
  }
}

void WorkPool::State::work() {
  MutexLock lock(mutex_);
  for (bool hasSlot = true; hasSlot;) {
    ++idle_;
    released_.notify_all();
    submitted_.wait(lock, [this]() REQUIRES(mutex_) { return !queue_.empty() || stopping_; });
    --idle_;
    if (queue_.empty()) {
      --slotsInUse_;
      break;
    }
    Job job = std::move(queue_.front());
    queue_.pop_front();
    busy_.push_back(std::this_thread::get_id());
    lock.unlock();
    Slot slot(*this);
    job(slot);
    job = nullptr;
    lock.lock();
    busy_.erase(std::find(busy_.begin(), busy_.end(), std::this_thread::get_id()));
    released_.notify_all();
    if (!slot.held_) {
      hasSlot = slotsInUse_ < slots_;
      slotsInUse_ += hasSlot ? 1 : 0;
    }
  }
  const auto self = find(std::this_thread::get_id());
  if (self != threads_.end()) {  // otherwise stop() has detached this thread or joins it
    self->detach();
    threads_.erase(self);
  }
}

std::list<std::thread>::iterator WorkPool::State::find(std::thread::id id) {
  return std::find_if(threads_.begin(), threads_.end(),
                      [id](const std::thread& thread) { return thread.get_id() == id; });
}

}  // namespace switchml_delegate
