// Provokes one fault of the real client library's RDMA backend, in one process: a controller of its
// own, and in place of libibverbs a card whose switch has one worker, that answers, loses and fails
// as the case says. Ends with 0 where the library holds. It shows nothing of a real card.
#include <infiniband/verbs.h>
#include <sched.h>
#include <switchml/context.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client_case.hpp"

using namespace std::chrono_literals;

// ---- the card -----------------------------------------------------------------------------------

namespace {
struct Sent {
  Clock::time_point when;
  std::uint32_t queuePair;
  std::uint16_t message;
};

enum class Answer { kSum, kTwice, kNone, kError, kNoNumber, kFull };

/// A message as it was when the card read it. One worker: this is also the sum.
struct Message {
  ibv_wc done;
  std::vector<char> values;
  char* place;
};

struct Card {
  std::mutex mutex;
  std::vector<Sent> sent;
  std::function<Answer(const Sent&, int)> answer;  // to a message that was sent so many times
  std::map<std::uint32_t, int> times;              // in a row, by queue pair
  std::map<std::uint32_t, std::uint16_t> newest;
  std::map<ibv_cq*, std::deque<ibv_wc>> completions;
  std::map<std::uint32_t, std::deque<std::uint64_t>> receives;
  std::map<std::uint32_t, Message> late;  // second answers, by queue pair
  std::uint32_t queuePairs = 0;
};
Card& ours = *new Card;
ibv_device device{};
ibv_context opened{};

int postReceive(ibv_qp* pair, ibv_recv_wr* request, ibv_recv_wr**) {
  const std::lock_guard<std::mutex> lock(ours.mutex);
  ours.receives[pair->qp_num].push_back(request->wr_id);
  return 0;
}

/// Delivers a message; one that no request awaits is dropped.
void deliver(ibv_qp* pair, Message message) {
  auto& receives = ours.receives[pair->qp_num];
  if (receives.empty()) {
    return;
  }
  std::copy(message.values.begin(), message.values.end(), message.place);
  message.done.wr_id = receives.front();
  receives.pop_front();
  ours.completions[pair->recv_cq].push_back(message.done);
}

int postSend(ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** bad) {
  const std::lock_guard<std::mutex> lock(ours.mutex);
  const auto number = pair->qp_num;
  const Sent sent{Clock::now(), number, static_cast<std::uint16_t>(request->imm_data)};
  ours.sent.push_back(sent);
  ours.times[number] = ours.newest[number] == sent.message ? ours.times[number] + 1 : 1;
  ours.newest[number] = sent.message;
  const Answer answer = ours.answer ? ours.answer(sent, ours.times[number]) : Answer::kSum;
  if (answer == Answer::kFull) {
    *bad = request;
    return ENOMEM;
  }
  const auto* const values = reinterpret_cast<const char*>(request->sg_list->addr);
  Message message{{}, {values, values + request->sg_list->length}, nullptr};
  message.place = reinterpret_cast<char*>(request->wr.rdma.remote_addr);
  message.done.qp_num = number;
  if ((request->send_flags & IBV_SEND_SIGNALED) != 0) {
    message.done.wr_id = request->wr_id;
    message.done.opcode = IBV_WC_RDMA_WRITE;
    ours.completions[pair->send_cq].push_back(message.done);
  }
  if (const auto late = ours.late.find(number); late != ours.late.end()) {
    deliver(pair, late->second);
    ours.late.erase(late);
  }
  message.done.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  message.done.status = answer == Answer::kError ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS;
  message.done.wc_flags = answer == Answer::kNoNumber ? 0 : IBV_WC_WITH_IMM;
  message.done.imm_data = request->imm_data;
  if (answer == Answer::kTwice) {
    ours.late[number] = message;
  }
  if (answer != Answer::kNone) {
    deliver(pair, std::move(message));
  }
  return 0;
}

int poll(ibv_cq* queue, int most, ibv_wc* found) {
  const std::lock_guard<std::mutex> lock(ours.mutex);
  auto& completions = ours.completions[queue];
  int count = 0;
  for (; count < most && !completions.empty(); ++count) {
    found[count] = completions.front();
    completions.pop_front();
  }
  return count;
}
}  // namespace

extern "C" {
ibv_device** ibv_get_device_list(int* count) {
  *count = 1;
  return new ibv_device* [2] { &device, nullptr };
}
void ibv_free_device_list(ibv_device** list) { delete[] list; }
const char* ibv_get_device_name(ibv_device*) { return "simulated"; }
__be64 ibv_get_device_guid(ibv_device*) { return 0; }
ibv_context* ibv_open_device(ibv_device*) {
  opened.device = &device;
  opened.ops.poll_cq = poll;
  opened.ops.post_send = postSend;
  opened.ops.post_recv = postReceive;
  return &opened;
}
int ibv_close_device(ibv_context*) { return 0; }
int ibv_query_device(ibv_context*, ibv_device_attr* found) {
  found->phys_port_cnt = 1;
  return 0;
}
#undef ibv_query_port
int ibv_query_port(ibv_context*, uint8_t, _compat_ibv_port_attr* found) {
  reinterpret_cast<ibv_port_attr*>(found)->gid_tbl_len = 4;
  return 0;
}
int ibv_query_gid(ibv_context*, uint8_t, int index, ibv_gid* found) {
  *found = {};
  found->raw[15] = static_cast<uint8_t>(index + 1);
  return 0;
}
ibv_pd* ibv_alloc_pd(ibv_context*) { return new ibv_pd{}; }
int ibv_dealloc_pd(ibv_pd* domain) {
  delete domain;
  return 0;
}
#undef ibv_reg_mr
ibv_mr* ibv_reg_mr(ibv_pd*, void* address, size_t length, int) {
  auto* region = new ibv_mr{};
  region->addr = address;
  region->length = length;
  return region;
}
int ibv_dereg_mr(ibv_mr* region) {
  delete region;
  return 0;
}
ibv_cq* ibv_create_cq(ibv_context* context, int, void*, ibv_comp_channel*, int) {
  auto* queue = new ibv_cq{};
  queue->context = context;
  return queue;
}
ibv_qp* ibv_create_qp(ibv_pd*, ibv_qp_init_attr* wanted) {
  auto* pair = new ibv_qp{};
  pair->context = &opened;
  pair->send_cq = wanted->send_cq;
  pair->recv_cq = wanted->recv_cq;
  pair->qp_num = ++ours.queuePairs;
  return pair;
}
int ibv_modify_qp(ibv_qp*, ibv_qp_attr*, int) { return 0; }

// The machine that the library expects: huge pages, and a processor near the card for each thread.
long gethugepagesize() { return 1L << 21; }
void* mmap(void* wanted, size_t length, int protection, int flags, int file,
           off_t offset) noexcept {
  return reinterpret_cast<void*>(
      syscall(SYS_mmap, wanted, length, protection, flags & ~MAP_HUGETLB, file, offset));
}
int sched_setaffinity(pid_t, size_t, const cpu_set_t*) noexcept { return 0; }
FILE* popen(const char* command, const char*) {
  static char node[] = "0\n";
  static char cores[] = "0,0\n0,0\n0,1\n";
  char* said = std::strstr(command, "numa_node") != nullptr ? node : cores;
  return fmemopen(said, std::strlen(said), "r");
}
int pclose(FILE* file) { return std::fclose(file); }
}

// ---- cases --------------------------------------------------------------------------------------

namespace {
struct RdmaRun : Run {
  RdmaRun() : Run("rdma", -500) {
    auto& rdma = config.backend_.rdma;
    rdma.msg_numel = 512;
    rdma.device_name = "simulated";
    rdma.device_port_id = 1;
    rdma.gid_index = 3;
  }

  void start() {
    config.general_.controller_port = controller.listen();
    require(context.Start(&config), "Start() returned false");
  }
};

/// The card does that once to one thread, while the other one waits for an answer that never comes.
void failing(RdmaRun& run, Answer answer) {
  run.config.general_.num_worker_threads = 2;
  run.start();
  run.sum(512 * 40);
  ours.answer = [answer, count = 0](const Sent& sent, int) mutable {
    if (sent.queuePair > 2) {
      return sent.queuePair == 4 ? Answer::kNone : Answer::kSum;
    }
    return ++count == 3 ? answer : Answer::kSum;
  };
  for (const std::size_t numel : {512 * 40, 512}) {
    run.sum(numel, switchml::FAILED);
    run.context.WaitForAllJobs();
  }
  const auto used = std::clock();
  std::this_thread::sleep_for(1s);
  require(std::clock() - used < CLOCKS_PER_SEC / 10, "a thread spins when the jobs have failed");
}

/// A job of one message has two answers, and the second comes when the next job has begun. It takes
/// the room of that job's answer, so that its message is sent again from memory.
void lateAnswer(RdmaRun& run) {
  run.config.general_.timeout = 30;
  ours.answer = [count = 0](const Sent&, int) mutable {
    return ++count == 1 ? Answer::kTwice : Answer::kSum;
  };
  run.start();
  for (const std::int32_t value : {-7, 1000}) {
    std::vector<std::int32_t> in(512, value), out(512, -1);
    const auto job =
        run.context.AllReduce(in.data(), out.data(), in.size(), switchml::INT32, switchml::SUM);
    require(job->GetJobStatus() == switchml::FINISHED, "a job failed");
    require(in == out, "an answer of the job before was taken for a sum");
  }
}

/// The first messages of a job are not answered until each was sent so often, and one is lost once
/// more then.
void backOff(RdmaRun& run) {
  constexpr int kSilent = 5;
  static constexpr std::uint32_t kLost = 2;
  static std::map<std::uint32_t, std::uint16_t> first;
  run.config.general_.timeout = 30;
  run.config.general_.timeout_threshold = 0;
  run.config.general_.timeout_threshold_increment = 0;
  ours.answer = [](const Sent& sent, int times) {
    const bool early = first.emplace(sent.queuePair, sent.message).first->second == sent.message;
    const int silent = kSilent - (sent.queuePair == kLost ? 0 : 1);
    return early && times <= silent ? Answer::kNone : Answer::kSum;
  };
  run.start();
  const auto job = [&run] {
    first.clear();
    run.sum(512 * 8);
  };
  requireShortWait(ours.sent, job, [](const Sent& sent) {
    return sent.queuePair == kLost && sent.message == first[kLost];
  });
}
}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  static RdmaRun& run = *new RdmaRun;
  std::thread([] {
    std::this_thread::sleep_for(60s);
    end(1, "it hangs");
  }).detach();
  const std::map<std::string, Answer> failures{
      {"error", Answer::kError}, {"no-number", Answer::kNoNumber}, {"full", Answer::kFull}};
  if (const auto found = failures.find(name); found != failures.end()) {
    failing(run, found->second);
  } else if (name == "back-off") {
    backOff(run);
  } else if (name == "late-answer") {
    lateAnswer(run);
  } else {
    run.start();
    for (std::size_t numel : {1, 511, 512, 4000, 100'000}) {
      run.sum(numel);
    }
  }
  run.context.Stop();
  end(0, "holds");
}
