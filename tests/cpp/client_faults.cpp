// Provokes one fault of the real client library's DPDK backend, in one process: a controller of its
// own, a port of DPDK that drops everything, and in its place a switch for one worker that answers,
// loses, repeats and invents packets as the case says. Ends with 0 where the library holds.
#include <dlfcn.h>
#include <grpc++/grpc++.h>
#include <pthread.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_udp.h>
#include <switchml/context.h>
#include <switchml/switchml.grpc.pb.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

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

void* take(std::size_t size) {
  auto* block = static_cast<Block*>(std::malloc(sizeof(Block) + size + 16));
  if (block == nullptr) {
    throw std::bad_alloc();
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

// ---- the controller -----------------------------------------------------------------------------

namespace {
struct Controller final : switchml_proto::Session::Service {
  bool refuses = false;
  grpc::Status UdpSession(grpc::ServerContext*, const switchml_proto::UdpSessionRequest* request,
                          switchml_proto::UdpSessionResponse* response) override {
    if (!refuses) {
      response->set_session_id(request->session_id());
      response->set_mac(0x020000000001);
      response->set_ipv4(0x0a0000fe);
    }
    return grpc::Status::OK;
  }
};

struct Synchronizer final : switchml_proto::Sync::Service {
  bool hangs = false;
  grpc::Status Barrier(grpc::ServerContext* context, const switchml_proto::BarrierRequest*,
                       switchml_proto::BarrierResponse*) override {
    while (hangs && !context->IsCancelled()) {
      std::this_thread::sleep_for(10ms);
    }
    return grpc::Status::OK;
  }
  grpc::Status Broadcast(grpc::ServerContext*, const switchml_proto::BroadcastRequest* request,
                         switchml_proto::BroadcastResponse* response) override {
    response->set_value(request->value());
    return grpc::Status::OK;
  }
};

// ---- the switch ---------------------------------------------------------------------------------

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
};
Switch& ours = *new Switch;

Header* header(rte_mbuf* mbuf) { return rte_pktmbuf_mtod_offset(mbuf, Header*, 42); }

rte_mbuf* copied(const rte_mbuf* mbuf) {
  rte_mbuf* copy = rte_pktmbuf_copy(mbuf, mbuf->pool, 0, UINT32_MAX);
  if (copy == nullptr) {
    std::fprintf(stderr, "no buffer\n");
    std::_Exit(70);
  }
  auto* udp = rte_pktmbuf_mtod_offset(copy, rte_udp_hdr*, 34);
  const rte_be16_t port = udp->src_port;
  udp->src_port = udp->dst_port;
  udp->dst_port = port;
  return copy;
}

uint16_t transmit(void*, rte_mbuf** packets, uint16_t count) {
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
    rte_pktmbuf_free(packets[i]);
  }
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
  const std::lock_guard<std::mutex> lock(ours.mutex);
  uint16_t n = 0;
  for (; n < count && !ours.answers.empty(); ++n) {
    packets[n] = ours.answers.front();
    ours.answers.pop_front();
  }
  return n;
}

// ---- cases --------------------------------------------------------------------------------------

[[noreturn]] void end(int code, const std::string& why) {
  std::fprintf(code == 0 ? stdout : stderr, "%s\n", why.c_str());
  std::fflush(nullptr);
  std::_Exit(code);
}

void require(bool holds, const std::string& otherwise) {
  if (!holds) {
    end(1, otherwise);
  }
}

struct Run {
  switchml::Config config;
  Controller controller;
  Synchronizer synchronizer;
  std::unique_ptr<grpc::Server> server;
  switchml::Context& context = switchml::Context::GetInstance();

  Run() {
    auto& general = config.general_;
    general.rank = 0;
    general.num_workers = 1;
    general.num_worker_threads = 1;
    general.max_outstanding_packets = 8;
    general.packet_numel = 256;
    general.backend = "dpdk";
    general.scheduler = "fifo";
    general.prepostprocessor = "cpu_exponent_quantizer";
    general.instant_job_completion = false;
    general.controller_ip_str = "127.0.0.1";
    general.timeout = 10'000;
    general.timeout_threshold = 1'000'000;
    general.timeout_threshold_increment = 100;
    auto& dpdk = config.backend_.dpdk;
    dpdk.worker_port = 4000;
    dpdk.worker_ip_str = "10.0.0.1";
    dpdk.cores_str = core();
    dpdk.extra_eal_options =
        "--no-huge --no-shconf -m 128 --no-pci --no-telemetry --vdev=net_null0";
    dpdk.port_id = 0;
    dpdk.pool_size = 4096;
    dpdk.pool_cache_size = 64;
    dpdk.burst_rx = 8;
    dpdk.burst_tx = 8;
    dpdk.bulk_drain_tx_us = 100;
  }

  static std::string core() {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    int first = 0;
    while (!CPU_ISSET(first, &set)) {
      ++first;
    }
    return std::to_string(first);
  }

  bool start() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&controller);
    builder.RegisterService(&synchronizer);
    server = builder.BuildAndStart();
    if (config.general_.controller_port == 0) {
      config.general_.controller_port = static_cast<uint16_t>(port);
    }
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

  std::shared_ptr<switchml::Job> submit(std::vector<float>& in, std::vector<float>& out) {
    return context.AllReduceAsync(in.data(), out.data(), in.size(), switchml::FLOAT32,
                                  switchml::SUM);
  }

  void sum(std::size_t numel) {
    std::vector<float> in(numel), out(numel, -1e30F);
    for (std::size_t i = 0; i < numel; ++i) {
      in[i] = static_cast<float>(i % 1000) + 1;
    }
    const auto job = submit(in, out);
    const auto limit = Clock::now() + 20s;
    while (job->GetJobStatus() < switchml::FINISHED) {
      require(Clock::now() < limit, "a job hangs");
      std::this_thread::sleep_for(1ms);
    }
    require(job->GetJobStatus() == switchml::FINISHED, "a job failed");
    for (std::size_t i = 0; i < numel; ++i) {
      require(std::abs(in[i] - out[i]) < 0.01F, "a wrong sum, told as finished");
    }
  }

  /// What was sent is told by job and packet: always the same slot and values.
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

void duplicates(Run& run) {
  ours.copies = [](const Sent&, int) { return 2; };
  run.sum(256 * 100);
}

void resentId(Run& run) {
  ours.copies = [](const Sent& sent, int times) { return sent.packet == 2 && times == 1 ? 0 : 1; };
  run.sum(256 * 100);
  run.requireSame();
}

void staleTimers(Run& run) {
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

void halfBatch(Run& run) {
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

void firstTimeout(Run& run) {
  ours.copies = [](const Sent&, int times) { return times == 1 ? 0 : 1; };
  const auto begin = Clock::now();
  run.sum(256);
  // Twice the timeout for each of two packets, and not eight times it.
  require(Clock::now() - begin < 2400ms, "the first packets were sent again too late");
}

void foreignFrames(Run& run) {
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
    put([](rte_mbuf* frame) {
      rte_pktmbuf_mtod(frame, rte_ether_hdr*)->ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_ARP);
    });
    put([](rte_mbuf* frame) {
      rte_pktmbuf_mtod_offset(frame, rte_ipv4_hdr*, 14)->version_ihl = 0x46;
    });
    put([](rte_mbuf* frame) {
      rte_pktmbuf_mtod_offset(frame, rte_ipv4_hdr*, 14)->next_proto_id = 6;
    });
    put([](rte_mbuf* frame) {
      rte_pktmbuf_mtod_offset(frame, rte_udp_hdr*, 34)->dst_port = rte_cpu_to_be_16(4001);
    });
    put([](rte_mbuf* frame) { ++header(frame)->job; });
    put([](rte_mbuf* frame) { header(frame)->packet += 8; });  // the next one in this slot
    put([](rte_mbuf* frame) { header(frame)->packet = 300'000'000; });
    put([](rte_mbuf* frame) { header(frame)->packet = UINT32_MAX; });
  };
  run.sum(256 * 260);
  run.requireSame();
}

void stopAt(Run& run, int which, const char* what) {
  std::thread([what] {
    std::this_thread::sleep_for(15s);
    end(1, std::string("Stop() hangs: ") + what);
  }).detach();
  const std::string name = what;
  std::vector<float> in(256 * 20, 1), out(in.size(), -1);
  if (name == "dead") {
    ours.dead = true;
  } else if (name == "resending") {
    ours.copies = [](const Sent&, int) { return 0; };
  } else if (name == "short") {
    ours.copies = [](const Sent&, int) { return 0; };
  }
  if (name == "late") {
    run.sum(256);
    ours.holds = true;
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
  const int which = argc > 2 ? std::atoi(argv[2]) : 0;
  static Run& run = *new Run;
  auto& dpdk = run.config.backend_.dpdk;
  run.config.general_.controller_port = 0;
  bool starts = true;
  if (name == "resent-id" || name == "stale-timers" || name == "half-batch" ||
      name == "stop-resending") {
    run.config.general_.timeout = 30;
  } else if (name == "heap") {
    dpdk.burst_rx = 64;  // and 8 packets under way
  } else if (name == "first-timeout") {
    run.config.general_.timeout = 400;
  } else if (name == "refused") {
    run.controller.refuses = true;
    starts = false;
  } else if (name == "start-controller") {
    run.config.general_.controller_port = 1;
    starts = false;
  } else if (name == "start-hangs") {
    run.synchronizer.hangs = true;
    starts = false;
  } else if (name == "start-cores") {
    run.config.general_.num_worker_threads = 2;
    starts = false;
  } else if (name == "start-option") {
    dpdk.extra_eal_options += " --no-such-option";
    starts = false;
  } else if (name == "start-port") {
    dpdk.port_id = 7;
    starts = false;
  } else if (name == "start-address") {
    dpdk.worker_ip_str = "nowhere";
    starts = false;
  } else if (name == "start-memory") {
    dpdk.pool_size = 28'000;  // the thread's own pool does not fit any more
    starts = false;
  }
  const auto begin = Clock::now();
  const bool started = run.start();
  require(started == starts, started ? "Start() returned true" : "Start() returned false");
  if (!started) {
    require(Clock::now() - begin < 60s, "Start() took too long");
    end(0, "the process goes on");
  }
  if (name == "duplicates") {
    duplicates(run);
  } else if (name == "resent-id") {
    resentId(run);
  } else if (name == "stale-timers") {
    staleTimers(run);
  } else if (name == "half-batch") {
    halfBatch(run);
  } else if (name == "first-timeout") {
    firstTimeout(run);
  } else if (name == "foreign-frames") {
    foreignFrames(run);
  } else if (name.rfind("stop-", 0) == 0) {
    stopAt(run, which, name.c_str() + 5);
    end(0, "stopped");
  } else {
    run.sum(256 * 100);
  }
  run.context.Stop();
  lookAtArrays();
  if (name == "heap") {
    require(damage == nullptr, damage == nullptr ? "" : damage.load());
  }
  end(0, "holds");
}
