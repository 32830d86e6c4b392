// Provokes one fault of the real client library's DPDK backend, in one process: a controller of its
// own, a port of DPDK that drops everything, and in its place a switch for one worker that answers,
// loses, repeats and invents packets as the case says. Ends with 0 where the library holds.
#include <dlfcn.h>
#include <pthread.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_udp.h>
#include <switchml/context.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "client_case.hpp"
#include "counts.hpp"
#include "ends.hpp"

using namespace std::chrono_literals;

namespace switchml {
extern std::atomic<long long> start_limit __attribute__((weak));  // with the fix
}

// ---- memory: what is written behind its end, or given back otherwise than it was taken ----------

namespace {
struct alignas(16) Block {
  std::size_t size;
  std::size_t magic;
};
constexpr std::size_t kLive = 0x5a17c0de;
constexpr std::size_t kGone = 0xdeadc0de;
constexpr unsigned char kGuard = 0xA5;
std::atomic<const char*> damage{nullptr};
std::mutex argumentsMutex;
Block* recent[4096];  // the youngest of each size's class, so that they can be looked at
std::atomic<std::size_t> taken{0};
std::atomic<std::size_t> largest{0};

void* take(std::size_t size) {
  auto* block = static_cast<Block*>(std::malloc(sizeof(Block) + size + 16));
  if (block == nullptr) {
    throw std::bad_alloc();
  }
  for (auto most = largest.load(); most < size && !largest.compare_exchange_weak(most, size);) {
  }
  block->size = size;
  block->magic = kLive;
  auto* data = reinterpret_cast<unsigned char*>(block + 1);
  std::memset(data + size, kGuard, 16);
  return data;
}

void look(Block* block) {
  auto* end = reinterpret_cast<unsigned char*>(block + 1) + block->size;
  for (int i = 0; i < 16; ++i) {
    if (end[i] != kGuard) {
      damage = "written behind the end of a block";
    }
  }
}

void* takeArray(std::size_t size) {
  void* data = take(size);
  if (size < 256) {
    const std::lock_guard<std::mutex> lock(argumentsMutex);
    recent[taken++ % 4096] = static_cast<Block*>(data) - 1;
  }
  return data;
}

void giveBack(void* data, std::size_t size, bool sized) {
  if (data == nullptr) {
    return;
  }
  Block* block = static_cast<Block*>(data) - 1;
  if (block->magic == kGone) {
    damage = "given back twice";
    return;
  }
  if (sized && size != block->size) {
    damage = "given back as another type";
  }
  look(block);
  block->magic = kGone;  // and kept, so that a second time is seen
}

void lookAtArrays() {
  const std::lock_guard<std::mutex> lock(argumentsMutex);
  for (Block* block : recent) {
    if (block != nullptr && block->magic == kLive) {
      look(block);
    }
  }
}
}  // namespace

void* operator new(std::size_t size) { return take(size); }
void* operator new[](std::size_t size) { return takeArray(size); }
void operator delete(void* data) noexcept { giveBack(data, 0, false); }
void operator delete[](void* data) noexcept { giveBack(data, 0, false); }
void operator delete(void* data, std::size_t size) noexcept { giveBack(data, size, true); }
void operator delete[](void* data, std::size_t) noexcept { giveBack(data, 0, false); }

// ---- threads: one lock of one thread comes late -------------------------------------------------

namespace {
std::atomic<int> lateWorker{0};  // which lock of the worker from now on, 0 for none
std::atomic<int> lateMain{0};
pthread_t mainThread;

void comeLate(std::atomic<int>& which) {
  if (which > 0 && --which == 0) {
    usleep(300'000);
  }
}
}  // namespace

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) {
  using Lock = int (*)(pthread_mutex_t*);
  static const Lock real = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (lateWorker > 0 || lateMain > 0) {
    comeLate(pthread_equal(pthread_self(), mainThread) != 0 ? lateMain : lateWorker);
  }
  return real(mutex);
}

// ---- the port: one that may offer to free packets the quick way ---------------------------------

namespace {
std::atomic<bool> offersFastFree{false};
std::atomic<bool> freesFast{false};
}  // namespace

extern "C" int rte_eth_dev_info_get(uint16_t port, rte_eth_dev_info* info) {
  using Get = int (*)(uint16_t, rte_eth_dev_info*);
  static const Get real = reinterpret_cast<Get>(dlsym(RTLD_NEXT, "rte_eth_dev_info_get"));
  const int failed = real(port, info);
  if (offersFastFree) {
    info->tx_offload_capa |= RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
    info->tx_queue_offload_capa |= RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
  }
  return failed;
}

extern "C" int rte_eth_dev_configure(uint16_t port, uint16_t receiving, uint16_t sending,
                                     const rte_eth_conf* wanted) {
  using Configure = int (*)(uint16_t, uint16_t, uint16_t, const rte_eth_conf*);
  static const auto real = reinterpret_cast<Configure>(dlsym(RTLD_NEXT, "rte_eth_dev_configure"));
  freesFast = (wanted->txmode.offloads & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE) != 0;
  return real(port, receiving, sending, wanted);
}

// ---- EAL: one that has a core beyond its own numbers --------------------------------------------

namespace {
/// Number of the first core of this process.
int firstCore() {
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  int first = 0;
  while (!CPU_ISSET(first, &set)) {
    ++first;
  }
  return first;
}
constexpr int kFarCore = 1000;
}  // namespace

extern "C" int rte_eal_init(int count, char** arguments) {
  using Init = int (*)(int, char**);
  static const Init real = reinterpret_cast<Init>(dlsym(RTLD_NEXT, "rte_eal_init"));
  for (int i = 1; i < count; ++i) {
    if (arguments[i] == "0@" + std::to_string(kFarCore)) {
      std::snprintf(arguments[i], std::strlen(arguments[i]) + 1, "0@%d", firstCore());
    }
  }
  return real(count, arguments);
}

// ---- the switch ---------------------------------------------------------------------------------

namespace {
struct [[gnu::packed]] Header {
  uint8_t typeSize, job;
  uint32_t packet;
  uint16_t slot;
  int8_t exponents[2];
};

struct Sent {
  Clock::time_point when;
  uint8_t job;
  uint32_t packet;
  uint16_t slot;
  int8_t exponent;
  uint32_t first;  // element
};

struct Switch {
  std::mutex mutex;
  std::vector<Sent> sent;
  std::deque<rte_mbuf*> answers;
  std::function<int(const Sent&, int)> copies;  // answers to a packet that came so many times
  std::function<void(rte_mbuf*)> before;        // may put frames in front of an answer
  std::map<std::pair<int, uint32_t>, int> times;
  std::atomic<bool> dead{false}, holds{false};
  std::atomic<int> calls{0};        // to send
  std::atomic<bool> stalls{false};  // answers nothing before the stop, and then a few
};
Switch& ours = *new Switch;

rte_ether_hdr* ether(rte_mbuf* mbuf) { return rte_pktmbuf_mtod(mbuf, rte_ether_hdr*); }
rte_ipv4_hdr* ipv4(rte_mbuf* mbuf) { return rte_pktmbuf_mtod_offset(mbuf, rte_ipv4_hdr*, 14); }
rte_udp_hdr* udp(rte_mbuf* mbuf) { return rte_pktmbuf_mtod_offset(mbuf, rte_udp_hdr*, 34); }
Header* header(rte_mbuf* mbuf) { return rte_pktmbuf_mtod_offset(mbuf, Header*, 42); }

/// A frame as it comes back, in a buffer of those that the port receives into.
rte_mbuf* copied(const rte_mbuf* mbuf) {
  static rte_mempool* const pool = rte_mempool_lookup("wt0_rx");
  rte_mbuf* copy = rte_pktmbuf_copy(mbuf, pool, 0, UINT32_MAX);
  if (copy == nullptr) {
    std::fprintf(stderr, "no buffer\n");
    std::_Exit(70);
  }
  std::swap(ether(copy)->src_addr, ether(copy)->dst_addr);
  const rte_be32_t worker = ipv4(copy)->src_addr;
  ipv4(copy)->src_addr = ipv4(copy)->dst_addr;
  ipv4(copy)->dst_addr = worker;
  const rte_be16_t port = udp(copy)->src_port;
  udp(copy)->src_port = udp(copy)->dst_port;
  udp(copy)->dst_port = port;
  return copy;
}

/// Frees what was sent as a driver does: with MBUF_FAST_FREE all into the pool of the first,
/// whoever else has a packet.
void release(rte_mbuf** packets, uint16_t count) {
  if (!freesFast) {
    rte_pktmbuf_free_bulk(packets, count);
    return;
  }
  for (int i = 0; i < count; ++i) {
    if (packets[i]->pool != packets[0]->pool || rte_mbuf_refcnt_read(packets[i]) != 1) {
      damage = "a packet is freed that has another owner or another pool";
    }
  }
  rte_mempool_put_bulk(packets[0]->pool, reinterpret_cast<void**>(packets), count);
}

uint16_t transmit(void*, rte_mbuf** packets, uint16_t count) {
  ++ours.calls;
  if (ours.dead) {
    return 0;
  }
  const std::lock_guard<std::mutex> lock(ours.mutex);
  for (int i = 0; i < count; ++i) {
    const Header* found = header(packets[i]);
    Sent sent{Clock::now(), found->job, found->packet, found->slot, found->exponents[0], 0};
    std::memcpy(&sent.first, found + 1, sizeof sent.first);
    ours.sent.push_back(sent);
    const int times = ++ours.times[{sent.job, sent.packet}];
    for (int n = ours.copies ? ours.copies(sent, times) : 1; n > 0; --n) {
      if (ours.before) {
        ours.before(packets[i]);
      }
      ours.answers.push_back(copied(packets[i]));
    }
  }
  release(packets, count);
  return count;
}

uint16_t receive(void*, rte_mbuf** packets, uint16_t count) {
  std::size_t room = 0;
  if (rte_malloc_validate(packets, &room) == 0 && room < count * sizeof *packets) {
    damage = "more packets are asked for than their array has room for";
  }
  if (ours.holds) {
    return 0;
  }
  while (ours.stalls) {
    std::this_thread::sleep_for(1ms);
    if (switchml::Context::GetInstance().GetContextState() != switchml::Context::RUNNING) {
      count = std::min<uint16_t>(count, 3);
      break;
    }
  }
  const std::lock_guard<std::mutex> lock(ours.mutex);
  uint16_t n = 0;
  for (; n < count && !ours.answers.empty(); ++n) {
    packets[n] = ours.answers.front();
    ours.answers.pop_front();
  }
  return n;
}

// ---- cases --------------------------------------------------------------------------------------

struct DpdkRun : Run {
  DpdkRun() : Run("dpdk", 1) {
    auto& dpdk = config.backend_.dpdk;
    dpdk.worker_port = 4000;
    dpdk.worker_ip_str = "10.0.0.1";
    dpdk.cores_str = std::to_string(firstCore());
    dpdk.extra_eal_options =
        "--no-huge --no-shconf -m 128 --no-pci --no-telemetry --vdev=net_null0";
    dpdk.port_id = 0;
    dpdk.pool_size = 4096;
    dpdk.pool_cache_size = 64;
    dpdk.burst_rx = 8;
    dpdk.burst_tx = 8;
    dpdk.bulk_drain_tx_us = 100;
  }

  bool start() {
    const auto port = controller.listen();
    if (config.general_.controller_port == 0) {
      config.general_.controller_port = port;
    }
    return begin();
  }

  bool begin() {
    const bool started = context.Start(&config);
    if (started) {
      // Before the first job no thread looks at the port; a start that does not wait is waited for.
      const auto limit = Clock::now() + 20s;
      while (rte_eth_fp_ops[0].txq.data == nullptr && Clock::now() < limit) {
        std::this_thread::sleep_for(10ms);
      }
      std::this_thread::sleep_for(200ms);
      rte_eth_fp_ops[0].rx_pkt_burst = receive;
      rte_eth_fp_ops[0].tx_pkt_burst = transmit;
    }
    return started;
  }

  /// Requires the same slot and values each time that a packet of a job is sent.
  void requireSame(uint32_t batch = 8) const {
    std::map<std::pair<int, uint32_t>, std::tuple<uint16_t, int8_t, uint32_t>> first;
    for (const Sent& sent : ours.sent) {
      // The first packets carry exponents only.
      const std::tuple what{sent.slot, sent.exponent, sent.packet < batch ? 0 : sent.first};
      const auto found = first.emplace(std::pair<int, uint32_t>{sent.job, sent.packet}, what);
      require(found.first->second == what, "a packet was sent again as another one");
    }
  }
};

/// Jobs are under way when it stops, and their answers come to the next session. In that the ids of
/// jobs begin with what the controller has told all workers. Each pool has its packets back, of a
/// job that nothing was sent of as well.
void restart(DpdkRun& run) {
  const auto sum = [&run] {
    const auto before = ours.sent.size();
    run.sum(256 * 100);
    const auto id = static_cast<uint8_t>(run.controller.sessionId);
    require(ours.sent.at(before).job == id, "the ids of jobs depend on earlier sessions");
  };
  for (int session = 0; session < 4; ++session) {
    sum();
    auto& first = session % 2 == 0 ? ours.stalls : ours.dead;
    first = true;
    auto& in = *new std::vector<float>(256 * 100, 1);
    auto& out = *new std::vector<float>(in.size());
    const auto calls = ours.calls.load();
    const auto job = run.submit(in, out);
    while (ours.calls == calls) {
      std::this_thread::sleep_for(1ms);
    }
    run.context.Stop();
    require(job->GetJobStatus() == switchml::FAILED, "a job that was stopped did not fail");
    first = false;
    const auto used = [](const char* pool) {
      return rte_mempool_in_use_count(rte_mempool_lookup(pool));
    };
    require(used("wt0_tx") == 0, "packets that were not sent are lost");
    require(used("wt0_rx") == ours.answers.size(), "packets that came back are lost");
    require(run.begin(), "Start() returned false after Stop()");
  }
  sum();
}

void duplicates(DpdkRun& run) {
  ours.copies = [](const Sent&, int) { return 2; };
  run.sum(256 * 100);
}

void resentId(DpdkRun& run) {
  ours.copies = [](const Sent& sent, int times) { return sent.packet == 2 && times == 1 ? 0 : 1; };
  run.sum(256 * 100);
  run.requireSame();
}

void staleTimers(DpdkRun& run) {
  run.sum(256);  // fewer packets than may be under way
  std::this_thread::sleep_for(200ms);
  ours.holds = true;  // so that timers are looked at
  std::thread([] {
    std::this_thread::sleep_for(400ms);
    ours.holds = false;
  }).detach();
  run.sum(256);
  // With 3 of 8 packets under way those of two rounds must not have one timer.
  ours.copies = [](const Sent& sent, int times) { return times == 1 && sent.packet == 0 ? 0 : 1; };
  run.config.general_.max_outstanding_packets = 4;
  run.sum(256 * 3);
  int newest = 0;
  for (const Sent& sent : ours.sent) {
    require(sent.job >= newest, "a packet of an earlier job was sent again");
    newest = std::max<int>(newest, sent.job);
  }
  run.requireSame();
}

void halfBatch(DpdkRun& run) {
  static std::map<int, bool> waiting;  // for an answer, by slot and set
  static bool early = false;
  ours.copies = [](const Sent& sent, int times) {
    const int slot = rte_be_to_cpu_16(sent.slot);
    early = early || (times == 1 && waiting[slot ^ 0x8000]);
    waiting[slot] = sent.packet == 2 && times == 1;
    return waiting[slot] ? 0 : 1;
  };
  for (std::size_t packets = 1; packets <= 20; ++packets) {
    run.sum(256 * packets);
  }
  require(!early, "a slot was used again before the packet in its other set had its answer");
}

void firstTimeout(DpdkRun& run) {
  ours.copies = [](const Sent&, int times) { return times == 1 ? 0 : 1; };
  const auto begin = Clock::now();
  run.sum(256);
  // Twice the timeout for each of two packets, and not eight times it.
  require(Clock::now() - begin < 2400ms, "the first packets were sent again too late");
}

void foreignFrames(DpdkRun& run) {
  ours.before = [](rte_mbuf* answer) {
    const auto put = [&](const std::function<void(rte_mbuf*)>& change) {
      rte_mbuf* frame = copied(answer);
      std::memset(header(frame) + 1, 0x11, 64);
      change(frame);
      ours.answers.push_back(frame);
    };
    put([](rte_mbuf* frame) {
      rte_pktmbuf_trim(frame, static_cast<uint16_t>(frame->pkt_len - 60));
    });
    put([](rte_mbuf* frame) { rte_pktmbuf_trim(frame, 4); });
    put([](rte_mbuf* frame) { ether(frame)->ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_ARP); });
    put([](rte_mbuf* frame) { ipv4(frame)->version_ihl = 0x46; });
    put([](rte_mbuf* frame) { ipv4(frame)->next_proto_id = 6; });
    put([](rte_mbuf* frame) { udp(frame)->dst_port = rte_cpu_to_be_16(4001); });
    put([](rte_mbuf* frame) { ++ether(frame)->src_addr.addr_bytes[5]; });
    put([](rte_mbuf* frame) { ipv4(frame)->src_addr = rte_cpu_to_be_32(0x0a000002); });
    put([](rte_mbuf* frame) { header(frame)->slot ^= rte_cpu_to_be_16(1); });
    put([](rte_mbuf* frame) { header(frame)->slot ^= rte_cpu_to_be_16(0x8000); });
    put([](rte_mbuf* frame) { ++header(frame)->job; });
    put([](rte_mbuf* frame) { header(frame)->packet += 8; });  // the next one in this slot
    put([](rte_mbuf* frame) { header(frame)->packet = 300'000'000; });
    put([](rte_mbuf* frame) { header(frame)->packet = UINT32_MAX; });
  };
  run.sum(256 * 260);
  run.requireSame();
}

void foreignJob(DpdkRun& run) {
  // Jobs of two packets, of which 256 end where they began among 16 slots. The answer with the
  // values of the first comes again where that of the job with the same 8 bits is due.
  ours.before = [](rte_mbuf* answer) {
    static rte_mbuf* late = nullptr;
    static int count = 0;
    if (++count == 2) {
      late = copied(answer);
      std::memset(header(late) + 1, 0x11, 1024);
    } else if (count == 2 * 257) {
      ours.answers.push_back(late);
    }
  };
  for (int job = 0; job <= 256; ++job) {
    run.sum(256);
  }
}

void fastFree(DpdkRun& run) {
  ours.copies = [](const Sent& sent, int times) {
    return sent.packet % 5 == 0 && times == 1 ? 0 : 1;
  };
  for (int job = 0; job < 8; ++job) {
    run.sum(256 * 40);
  }
}

void jobSizes(DpdkRun& run) {
  std::vector<float> in(1), out(1);
  largest = 0;
  for (int job = 0; job < 20'000; ++job) {
    run.submit(in, out)->WaitToComplete();
  }
  run.context.Stop();
  require(largest < 64 * 1024, "memory grows with the number of jobs");
  end(0, "stays small");
}

/// The first packets are sent again and again, until one of them has an answer.
void counts(DpdkRun& run) {
  const auto& stats = run.context.GetStats();
  const auto waitFor = [](const std::function<bool()>& holds, const char* otherwise) {
    const auto limit = Clock::now() + 10s;
    while (!holds()) {
      require(Clock::now() < limit, otherwise);
      std::this_thread::sleep_for(1ms);
    }
  };
  const auto all = [&stats] {
    const std::lock_guard<std::mutex> lock(ours.mutex);
    return stats.TotalPktsSent() == ours.sent.size();
  };
  ours.holds = true;
  std::thread job([&run] { run.sum(256 * 100); });
  waitFor([&] { return stats.Timeouts() > 0 && all(); },
          "a job that goes on has not counted what it sends");
  require(stats.CorrectPktsReceived() == 0, "answers are counted before there are any");
  ours.holds = false;
  job.join();
  waitFor([&] { return stats.CorrectPktsReceived() == 108; }, "answers are not counted");
  waitFor(all, "packets are not counted as they were sent");
}

/// The function is called when the sum is there, whoever comes first.
void jobEnd(DpdkRun& run) {
  for (const bool early : {true, false}) {
    ours.holds = early;
    std::vector<float> in(256 * 20, 1);
    std::vector<float> out(in.size(), -1);
    const auto job = run.submit(in, out);
    if (!early) {
      job->WaitToComplete();
    }
    std::promise<bool> ended;
    job->CallAtEnd(
        [&] { ended.set_value(job->GetJobStatus() == switchml::FINISHED && in == out); });
    auto answer = ended.get_future();
    require(!early || answer.wait_for(300ms) == std::future_status::timeout,
            "called before the job has ended");
    ours.holds = false;
    require(answer.wait_for(10s) == std::future_status::ready, "not called when the job has ended");
    require(answer.get(), "called without the sum");
  }
}

void backOff(DpdkRun& run) {
  // Nothing is answered until each packet was sent so often, and one is lost once more then.
  constexpr int kSilent = 5;
  ours.copies = [](const Sent& sent, int times) {
    return times > kSilent || (times == kSilent && sent.packet != 3) ? 1 : 0;
  };
  requireShortWait(
      ours.sent, [&run] { run.sum(256 * 8); }, [](const Sent& sent) { return sent.packet == 3; });
}

void stopAt(DpdkRun& run, int which, const char* what) {
  std::thread([what] {
    std::this_thread::sleep_for(15s);
    end(1, std::string("Stop() hangs: ") + what);
  }).detach();
  const std::string name = what;
  std::vector<float> in(256 * 20, 1), out(in.size(), -1);
  if (name == "dead") {
    ours.dead = true;
  } else if (name == "late") {
    run.sum(256);
    ours.holds = true;
  } else {
    ours.copies = [](const Sent&, int) { return 0; };
  }
  const auto job = run.submit(in, out);
  if (name == "late") {
    std::this_thread::sleep_for(100ms);
    lateWorker = which;
    ours.holds = false;
    job->WaitToComplete();
    std::this_thread::sleep_for(std::chrono::milliseconds(which == 0 ? 0 : 20));
  } else {
    std::this_thread::sleep_for(300ms);
    if (name == "resending") {
      ours.dead = true;
      std::this_thread::sleep_for(300ms);
    }
    lateMain = which;
  }
  run.context.Stop();
  require(name == "late" || job->GetJobStatus() == switchml::FAILED,
          "a job that Stop() cut short is told as finished");
}
}  // namespace

int main(int argc, char** argv) {
  mainThread = pthread_self();
  const std::string name = argc > 1 ? argv[1] : "";
  const auto objection = name == "counts"    ? objectionToCounts()
                         : name == "job-end" ? objectionToEnds()
                                             : "";
  require(objection.empty(), objection);
  const int which = argc > 2 ? std::atoi(argv[2]) : 0;
  static DpdkRun& run = *new DpdkRun;
  auto& general = run.config.general_;
  auto& dpdk = run.config.backend_.dpdk;
  general.controller_port = 0;
  const auto soon = [&general] { general.timeout = 30; };
  const std::map<std::string, std::function<void()>> preparations = {
      {"back-off",
       [&] {
         soon();
         general.timeout_threshold = 1;
         general.timeout_threshold_increment = 0;
       }},
      {"connection",
       [] {
         setenv("http_proxy", "http://127.0.0.1:1", /*overwrite=*/1);  // where nobody listens
         unsetenv("no_proxy");
       }},
      {"cores", [&] { dpdk.cores_str = std::to_string(kFarCore); }},
      {"counts", soon},
      {"fast-free",
       [&] {
         soon();
         offersFastFree = true;
       }},
      {"first-timeout", [&] { general.timeout = 400; }},
      {"half-batch", soon},
      {"heap", [&] { dpdk.burst_rx = 64; }},  // and 8 packets under way
      {"job-sizes", [&] { general.instant_job_completion = true; }},
      {"resent-id", soon},
      {"stale-timers", soon},
      {"stop-resending", soon},
      // What follows does not start.
      {"refused", [] { run.controller.refuses = true; }},
      {"start-address", [&] { dpdk.worker_ip_str = "nowhere"; }},
      {"start-controller", [&] { general.controller_port = 1; }},
      {"start-cores", [&] { general.num_worker_threads = 2; }},
      {"start-hangs",
       [] {
         if (&switchml::start_limit != nullptr) {
           switchml::start_limit = 2000;
         }
         run.controller.hangs = true;
       }},
      {"start-memory", [&] { dpdk.pool_size = 28'000; }},  // the thread's own pool does not fit
      {"start-option", [&] { dpdk.extra_eal_options += " --no-such-option"; }},
      {"start-port", [&] { dpdk.port_id = 7; }},
  };
  if (const auto found = preparations.find(name); found != preparations.end()) {
    found->second();
  }
  const bool starts = name != "refused" && name.rfind("start-", 0) != 0;
  const auto begin = Clock::now();
  const bool started = run.start();
  require(started == starts, started ? "Start() returned true" : "Start() returned false");
  if (!started) {
    require(Clock::now() - begin < 60s, "Start() took too long");
    end(0, "the process goes on");
  }
  const std::map<std::string, void (*)(DpdkRun&)> cases = {
      {"back-off", backOff},
      {"counts", counts},
      {"duplicates", duplicates},
      {"fast-free", fastFree},
      {"first-timeout", firstTimeout},
      {"foreign-frames", foreignFrames},
      {"foreign-job", foreignJob},
      {"half-batch", halfBatch},
      {"job-end", jobEnd},
      {"job-sizes", jobSizes},
      {"resent-id", resentId},
      {"restart", restart},
      {"stale-timers", staleTimers},
  };
  if (const auto found = cases.find(name); found != cases.end()) {
    found->second(run);
  } else if (name.rfind("stop-", 0) == 0) {
    stopAt(run, which, name.c_str() + 5);
    end(0, "stopped");
  } else {
    run.sum(256 * 100);
  }
  run.context.Stop();
  lookAtArrays();
  if (name == "heap" || name == "fast-free") {
    require(damage == nullptr, damage == nullptr ? "" : damage.load());
  }
  end(0, "holds");
}
