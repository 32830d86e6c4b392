// WorkPool without torch: order, jobs that wait for jobs, the ends of the pool; with an argument
// also in a forked child. Prints ok.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "WorkPool.hpp"
#include "check.hpp"
#include "forked.hpp"

using switchml_delegate::WorkPool;

namespace {

// Allocations of this thread until one fails, from 1 on; none does where it is 0.
thread_local int untilFailure = 0;

}  // namespace

// Not inlined: gcc would see free() of what it takes for the memory of another operator new.
__attribute__((noinline)) void* operator new(std::size_t bytes) {
  if (untilFailure > 0 && --untilFailure == 0) {
    throw std::bad_alloc();
  }
  if (void* const memory = std::malloc(bytes)) {
    return memory;
  }
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace {

/// Jobs begin in the order of submit(), so that those that take turns never keep each other
/// waiting.
void order() {
  constexpr int kJobs = 3000;
  for (std::size_t slots : {1, 2, 5}) {
    std::mutex mutex;
    std::condition_variable changed;
    int turn = 0;
    int together = 0;
    WorkPool pool(slots);
    for (int number = 0; number < kJobs; ++number) {
      pool.submit([&, number](WorkPool::Slot&) {
        std::unique_lock<std::mutex> lock(mutex);
        ++together;
        check(together <= static_cast<int>(slots), "no more jobs than slots");
        changed.wait(lock, [&] { return turn == number; });
        ++turn;
        --together;
        changed.notify_all();
      });
    }
    pool.drain();
    check(turn == kJobs, "all jobs have run");
  }
}

int nested(WorkPool& pool, int depth) {
  if (depth == 0) {
    return 1;
  }
  auto answer = std::make_shared<std::promise<int>>();
  auto future = answer->get_future();
  pool.submit([&pool, answer, depth](WorkPool::Slot& slot) {
    slot.release();
    answer->set_value(1 + nested(pool, depth - 1));
  });
  return future.get();
}

/// Jobs that have released their slots may wait for jobs after them, however many they are.
void waiting() {
  for (std::size_t slots : {1, 2}) {
    std::atomic<int> sum{0};
    WorkPool pool(slots);
    for (int number = 0; number < 40; ++number) {
      pool.submit([&](WorkPool::Slot& slot) {
        slot.release();
        slot.release();
        sum += nested(pool, 3);
      });
    }
    pool.watch().lock()->waitUntilIdle(kEnough);
    check(sum == 40 * 4, "all jobs have got their answers");
  }
}

/// A job that releases its slot may wait for one that was queued while all slots were taken.
void released() {
  for (const unsigned slots : {1U, 2U}) {
    Meeting met(2 * slots);
    std::promise<void> full;
    const auto queued = full.get_future().share();
    WorkPool pool(slots);
    for (unsigned number = 0; number < slots; ++number) {
      pool.submit([&met, queued](WorkPool::Slot& slot) {
        queued.wait();
        slot.release();
        check(met.join(), "a queued job has the slot that was released");
      });
    }
    for (unsigned number = 0; number < slots; ++number) {
      pool.submit([&met](WorkPool::Slot&) { met.join(); });
    }
    full.set_value();
    pool.watch().lock()->waitUntilIdle(kEnough);
  }
}

/// Two jobs that wait for each other are submitted while one thread is idle, and has not woken.
void atOnce() {
  for (int round = 0; round < 200; ++round) {
    Meeting met(2);
    WorkPool pool(2);
    pool.submit([](WorkPool::Slot&) {});
    pool.drain();
    for (int number = 0; number < 2; ++number) {
      pool.submit([&met](WorkPool::Slot&) { check(met.join(), "both jobs have a thread"); });
    }
    pool.drain();
  }
}

/// Jobs that have released their slots wait for none of each other, when both drain the pool, and
/// when one ends it while the other waits for that.
void together() {
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> drained{0};
    std::promise<void> ended;
    auto pool = std::make_shared<WorkPool>(2);
    const auto state = pool->watch().lock();
    for (const bool ends : {false, true}) {
      pool->submit([&drained, &ended, ends, own = ends ? pool : nullptr,
                    &all = *pool](WorkPool::Slot& slot) mutable {
        slot.release();
        ++drained;
        until([&] { return drained >= 2; });
        all.drain();
        ++drained;
        until([&] { return drained == 4; });
        own.reset();
        if (ends) {
          ended.set_value();
        } else {
          ended.get_future().wait();
        }
      });
    }
    pool.reset();
    state->waitUntilIdle(kEnough);
    check(drained == 4, "both have drained the pool");
  }
}

/// Several threads submit and drain; the pool ends with jobs in its queue.
void crowd() {
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> ran{0};
    {
      WorkPool pool(2);
      inThreads(4, [&](std::size_t /*number*/) {
        for (int number = 0; number < 50; ++number) {
          pool.submit([&, number](WorkPool::Slot& slot) {
            ++ran;
            if (number % 3 == 0) {
              slot.release();
            }
          });
        }
        pool.drain();
      });
      for (int number = 0; number < 20; ++number) {
        pool.submit([&](WorkPool::Slot&) { ++ran; });
      }
    }
    check(ran == 4 * 50 + 20, "no job is lost");
  }
}

/// A job holds the last reference to the pool.
void last() {
  for (int round = 0; round < 200; ++round) {
    std::promise<void> ended;
    auto future = ended.get_future();
    auto pool = std::make_shared<WorkPool>(2);
    std::promise<void> dropped;
    auto signal = dropped.get_future().share();
    pool->submit([&ended, pool, signal](WorkPool::Slot& slot) mutable {
      signal.wait();
      slot.release();
      pool.reset();
      ended.set_value();
    });
    pool.reset();
    dropped.set_value();
    future.wait();
  }
}

/// Memory runs out at each place in submit(): either the job is taken, or it never runs.
void starved() {
  bool failed = true;
  for (int allocation = 1; failed; ++allocation) {
    check(allocation < 100, "submit() comes to its end with enough memory");
    std::atomic<int> ran{0};
    int taken = 0;
    bool first = true;
    {
      WorkPool pool(2);
      failed = false;
      // More jobs than threads, so that the queue grows as well.
      for (int number = 0; number < 40; ++number) {
        const WorkPool::Job job = [&ran](WorkPool::Slot&) { ++ran; };
        WorkPool::Job copy = job;
        untilFailure = first ? allocation : 0;
        try {
          pool.submit(std::move(copy));
          ++taken;
        } catch (const std::bad_alloc&) {
          failed = true;
        }
        first = false;
        untilFailure = 0;
      }
    }
    check(ran == taken, "what was refused has not run, and what was taken has");
  }
}

/// No thread can be had when a slot is released: the one that released it runs what is queued.
void starvedRelease() {
  std::promise<void> full;
  const auto queued = full.get_future().share();
  std::promise<void> ran;
  auto future = ran.get_future();
  WorkPool pool(1);
  pool.submit([queued](WorkPool::Slot& slot) {
    queued.wait();
    untilFailure = 1;
    slot.release();
    check(untilFailure == 0, "a thread needs memory");
  });
  pool.submit([&ran](WorkPool::Slot&) { ran.set_value(); });
  full.set_value();
  check(future.wait_for(kEnough) == std::future_status::ready, "the queued job runs");
}

void forked() {
  std::promise<void> release;
  auto signal = release.get_future().share();
  auto pool = std::make_unique<WorkPool>(2);
  pool->submit([signal](WorkPool::Slot&) { signal.wait(); });
  inChild([&pool] {
    const auto why = thrown([&] { pool->submit([](WorkPool::Slot&) {}); });
    pool->drain();
    pool.reset();
    check(why.find("forked") != std::string::npos, "the child refuses: " + why);
  });
  release.set_value();
}

}  // namespace

int main(int count, char** /*arguments*/) {
  order();
  waiting();
  released();
  atOnce();
  together();
  crowd();
  last();
  starved();
  starvedRelease();
  if (count > 1) {
    forked();
  }
  std::puts("ok");
}
