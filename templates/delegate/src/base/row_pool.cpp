#include "base/row_pool.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/quietly.hpp"
#include "base/thread.hpp"

namespace switchml_delegate {

std::size_t threadsFor(std::size_t processors, std::size_t library) noexcept {
  constexpr std::size_t kMax = 4;
  return processors > library ? std::min(processors - library, kMax) : 1;
}

void RowPool::start(std::size_t count) noexcept {
  if (pid_ != 0) {
    return;
  }
  pid_ = getpid();
  quietly([&] {
    for (; count_ < count; ++count_) {
      startThread("swml-rows", [this] { help(); }).detach();
    }
  });
}

bool RowPool::hasThreads() const noexcept { return count_ > 0 && pid_ == getpid(); }

void RowPool::Row::work() {
  for (;;) {
    const auto first = next.fetch_add(size, std::memory_order_relaxed);
    if (first >= numel) {
      return;
    }
    call(first, std::min(first + size, numel));
  }
}

void RowPool::finish(Row& row) {
  MutexLock lock(mutex_);
  rows_.push_back(&row);
  lock.unlock();
  rowAdded_.notify_all();
  row.work();
  lock.lock();
  rows_.erase(std::find(rows_.begin(), rows_.end(), &row));
  helperLeft_.wait(lock, [&row] { return row.helpers == 0; });
}

RowPool::Row* RowPool::findOpenRow() const {
  const auto found = std::find_if(rows_.rbegin(), rows_.rend(), [](const Row* row) {
    return row->next.load(std::memory_order_relaxed) < row->numel;
  });
  return found == rows_.rend() ? nullptr : *found;
}

void RowPool::help() {
  MutexLock lock(mutex_);
  for (;;) {
    Row* row = nullptr;
    rowAdded_.wait(lock,
                   [this, &row]() REQUIRES(mutex_) { return (row = findOpenRow()) != nullptr; });
    ++row->helpers;
    lock.unlock();
    row->work();
    lock.lock();
    if (--row->helpers == 0) {
      helperLeft_.notify_all();
    }
  }
}

}  // namespace switchml_delegate
