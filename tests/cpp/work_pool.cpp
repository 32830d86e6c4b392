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
  for (std::size_t places : {1, 2, 5}) {
    std::mutex mutex;
    std::condition_variable changed;
    int turn = 0;
    int together = 0;
    WorkPool pool(places);
    for (int number = 0; number < kJobs; ++number) {
      pool.submit([&, number](WorkPool::Place&) {
        std::unique_lock<std::mutex> lock(mutex);
        ++together;
        check(together <= static_cast<int>(places), "no more jobs than places");
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
  pool.submit([&pool, answer, depth](WorkPool::Place& place) {
    place.release();
    answer->set_value(1 + nested(pool, depth - 1));
  });
  return future.get();
}

/// Jobs that have released their places may wait for jobs after them, however many they are.
void waiting() {
  for (std::size_t places : {1, 2}) {
    std::atomic<int> sum{0};
    WorkPool pool(places);
    for (int number = 0; number < 40; ++number) {
      pool.submit([&](WorkPool::Place& place) {
        place.release();
        place.release();
        sum += nested(pool, 3);
      });
    }
    pool.watch().lock()->finish(kEnough);
    check(sum == 40 * 4, "all jobs have got their answers");
  }
}

/// A job that releases its place may wait for one that was queued while all places were taken.
void released() {
  for (const unsigned places : {1U, 2U}) {
    Meeting met(2 * places);
    std::promise<void> full;
    const auto queued = full.get_future().share();
    WorkPool pool(places);
    for (unsigned number = 0; number < places; ++number) {
      pool.submit([&met, queued](WorkPool::Place& place) {
        queued.wait();
        place.release();
        check(met.join(), "a queued job has the place that was released");
      });
    }
    for (unsigned number = 0; number < places; ++number) {
      pool.submit([&met](WorkPool::Place&) { met.join(); });
    }
    full.set_value();
    pool.watch().lock()->finish(kEnough);
  }
}

/// Two jobs that wait for each other are submitted while one thread is idle, and has not woken.
void atOnce() {
  for (int round = 0; round < 200; ++round) {
    Meeting met(2);
    WorkPool pool(2);
    pool.submit([](WorkPool::Place&) {});
    pool.drain();
    for (int number = 0; number < 2; ++number) {
      pool.submit([&met](WorkPool::Place&) { check(met.join(), "both jobs have a thread"); });
    }
    pool.drain();
  }
}

/// Jobs that have released their places wait for none of each other, when both drain the pool, and
/// when one ends it while the other waits for that.
void together() {
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> drained{0};
    std::promise<void> ended;
    auto pool = std::make_shared<WorkPool>(2);
    const auto state = pool->watch().lock();
    for (const bool ends : {false, true}) {
      pool->submit([&drained, &ended, ends, own = ends ? pool : nullptr,
                    &all = *pool](WorkPool::Place& place) mutable {
        place.release();
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
    state->finish(kEnough);
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
          pool.submit([&, number](WorkPool::Place& place) {
            ++ran;
            if (number % 3 == 0) {
              place.release();
            }
          });
        }
        pool.drain();
      });
      for (int number = 0; number < 20; ++number) {
        pool.submit([&](WorkPool::Place&) { ++ran; });
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
    pool->submit([&ended, pool, signal](WorkPool::Place& place) mutable {
      signal.wait();
      place.release();
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
        const WorkPool::Job job = [&ran](WorkPool::Place&) { ++ran; };
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

/// No thread can be had when a place is released: the one that released it runs what is queued.
void starvedRelease() {
  std::promise<void> full;
  const auto queued = full.get_future().share();
  std::promise<void> ran;
  auto future = ran.get_future();
  WorkPool pool(1);
  pool.submit([queued](WorkPool::Place& place) {
    queued.wait();
    untilFailure = 1;
    place.release();
    check(untilFailure == 0, "a thread needs memory");
  });
  pool.submit([&ran](WorkPool::Place&) { ran.set_value(); });
  full.set_value();
  check(future.wait_for(kEnough) == std::future_status::ready, "the queued job runs");
}

void forked() {
  std::promise<void> release;
  auto signal = release.get_future().share();
  auto pool = std::make_unique<WorkPool>(2);
  pool->submit([signal](WorkPool::Place&) { signal.wait(); });
  inChild([&pool] {
    const auto why = thrown([&] { pool->submit([](WorkPool::Place&) {}); });
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
