// Scenarios of the threads that take parts of a row.
#include "threads.hpp"

#include <pthread.h>

#include <string>
#include <vector>

#include "check.hpp"
#include "host/cores.hpp"
#include "sum/rows.hpp"

namespace {

using namespace switchml_delegate;

constexpr std::uint64_t kChunk = 1U << 20U;  // the default of SWITCHML_CHUNK_NUMEL

void countedOnce(RowPool& threads) {
  inThreads(3, [&threads](std::size_t caller) {
    for (std::uint64_t round = 0; round < 300; ++round) {
      const auto numel = 1 + (round * 37 + caller * 101) % 1000;
      std::vector<int> counts(numel);
      threads.share(numel, 1 + round % 7, [&](std::uint64_t first, std::uint64_t last) noexcept {
        std::for_each(counts.begin() + static_cast<std::ptrdiff_t>(first),
                      counts.begin() + static_cast<std::ptrdiff_t>(last),
                      [](int& count) { ++count; });
      });
      check(std::count(counts.begin(), counts.end(), 1) == static_cast<std::ptrdiff_t>(numel),
            "each element once, and all when share() returns");
    }
  });
}

/// Rows that others empty while a helper looks for one that is not.
void emptied(RowPool& threads) {
  inThreads(3, [&threads](std::size_t /*caller*/) {
    for (unsigned round = 0; round < 20000; ++round) {
      std::atomic<std::uint64_t> done{0};
      threads.share(3, 1, [&done](std::uint64_t first, std::uint64_t last) noexcept {
        done += last - first;
      });
      check(done == 3, "all when share() returns");
    }
  });
}

/// A part of the default size is worked on by several threads, and the caller waits for the others.
void chunkIsShared() {
  Meeting both(2);
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> helped{false};
  rowPool().start(1);
  inParts(kChunk, 1, [&](std::uint64_t first, std::uint64_t last) noexcept {
    check(last - first < kChunk, "several parts");
    check(both.join(), "two threads at once");
    if (std::this_thread::get_id() != caller) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      helped = true;
    }
  });
  check(helped, "the helper is done");
}

/// One caller and its helper are busy: another caller has its row to itself.
void busy(RowPool& threads) {
  Meeting working(3);
  Meeting released(3);
  std::thread other([&] {
    threads.share(2, 1, [&](std::uint64_t /*first*/, std::uint64_t /*last*/) noexcept {
      check(working.join() && released.join(), "both are released");
    });
  });
  check(working.join(), "both are busy");
  std::uint64_t done = 0;
  threads.share(
      5, 1, [&done](std::uint64_t first, std::uint64_t last) noexcept { done += last - first; });
  check(done == 5, "the caller's own work");
  released.join();
  other.join();
}

void forked(RowPool& threads) {
  inChild([&threads] {
    std::uint64_t done = 0;
    threads.share(
        5, 1, [&done](std::uint64_t first, std::uint64_t last) noexcept { done += last - first; });
    check(done == 5, "the child works alone");
  });
}

/// No thread can be had: its stack would be larger than the memory.
void none() {
  pthread_attr_t attributes;
  check(pthread_attr_init(&attributes) == 0 &&
            pthread_attr_setstacksize(&attributes, std::size_t{1} << 46U) == 0 &&
            pthread_setattr_default_np(&attributes) == 0,
        "the size of stacks");
  RowPool threads;
  threads.start(2);
  std::vector<std::uint64_t> lengths;
  threads.share(5, 2, [&](std::uint64_t first, std::uint64_t last) noexcept {
    lengths.push_back(last - first);
  });
  check(lengths == std::vector<std::uint64_t>{5}, "all of it at once");
}

void rule() {
  check(threadsFor(64, 4) == 4 && threadsFor(6, 4) == 2, "what the library's threads leave");
  check(threadsFor(4, 4) == 1 && threadsFor(2, 4) == 1, "the caller's in any case");
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  std::thread([&one] {
    check(sched_setaffinity(0, sizeof one, &one) == 0 && ownCores().size() == 1, "its own");
  }).join();
}

}  // namespace

void checkThreads(bool forks) {
  auto& threads = rowPool();
  rule();
  chunkIsShared();
  countedOnce(threads);
  emptied(threads);
  busy(threads);
  if (forks) {
    forked(threads);
  }
  none();
}
