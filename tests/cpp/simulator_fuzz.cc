// Seeded inputs for the aggregator, beside workers whose sums must stay right.
//
//   simulator_fuzz FIRST COUNT
//
// Most inputs are connections of strangers to an aggregator whose session runs all the while. The
// others are sessions of their own, of two connections, with another aggregator, where every
// kRound-th session is one of honest workers. Each connection must be closed by the aggregator.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "aggregator.h"
#include "inputs.hpp"
#include "worker.h"

namespace {

using namespace switchml;
using std::chrono::milliseconds;

constexpr uint16_t kWorkers = 2;
constexpr milliseconds kEnough{300'000};
constexpr std::uint64_t kRound = 50;
constexpr std::size_t kLeftOpen = 20;

[[noreturn]] void Fail(std::uint64_t number, const std::string& why) {
  std::fprintf(stderr, "FAULT at input %ju: %s\n", uintmax_t{number}, why.c_str());
  std::_Exit(1);
}

Hello ValidHello(uint16_t rank) {
  GeneralConfig config{};
  config.rank = rank;
  config.num_workers = kWorkers;
  config.num_worker_threads = 4;
  config.max_outstanding_packets = 256;
  config.packet_numel = 64;
  config.prepostprocessor = "cpu_exponent_quantizer";
  config.timeout = static_cast<double>(kEnough.count());
  config.timeout_threshold = config.timeout_threshold_increment = 1;
  return MakeHello(config);
}

class Server {
 public:
  Server()
      : aggregator_(Endpoint{"127.0.0.1", 0}, kWorkers),
        end_(eventfd(0, EFD_CLOEXEC)),
        thread_([this] { aggregator_.Run(end_); }) {}

  Endpoint endpoint() const { return endpoint_; }

  const Tally& End() {
    eventfd_write(end_.get(), 1);
    thread_.join();
    return aggregator_.tally();
  }

 private:
  Aggregator aggregator_;
  const Endpoint endpoint_{aggregator_.endpoint()};
  Fd end_;
  std::thread thread_;
};

// Two workers that sum job after job, as long as they are let.
class Honest {
 public:
  explicit Honest(const Endpoint& endpoint) : endpoint_(endpoint) {
    for (uint16_t rank = 0; rank < kWorkers; ++rank) {
      threads_[rank] = std::thread([this, rank] { Run(rank); });
    }
  }

  // Returns once both have done so many jobs.
  void Require(long jobs) {
    std::unique_lock<std::mutex> lock(mutex_);
    wanted_ = std::max(wanted_, jobs);
    changed_.notify_all();
    changed_.wait(lock, [&] { return done_[0] >= jobs && done_[1] >= jobs; });
  }

  void End() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void Run(uint16_t rank) try {
    Stats stats;
    Worker worker(endpoint_, ValidHello(rank), kEnough, stats);
    for (long job = 0;; ++job) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return wanted_ > job || ending_; });
        if (wanted_ <= job) break;
      }
      Sum(worker, rank, job);
      const std::lock_guard<std::mutex> lock(mutex_);
      done_[rank] = job + 1;
      changed_.notify_all();
    }
    worker.SayGoodbye();
  } catch (const std::exception& error) {
    Fail(0, std::string("an honest worker: ") + error.what());
  }

  static void Sum(Worker& worker, uint16_t rank, long job) {
    const auto numel = static_cast<size_t>(1 + job * 37 % 700);
    if (job % 2 == 0) {
      std::vector<int32_t> values(numel);
      for (size_t i = 0; i < numel; ++i) values[i] = static_cast<int32_t>(i * 7 + rank + job);
      worker.AllReduce({values.data(), values.data(), numel, INT32}, SUM);
      for (size_t i = 0; i < numel; ++i) {
        if (values[i] != static_cast<int32_t>(2 * (i * 7 + job) + 1)) Fail(0, "a wrong int32 sum");
      }
      return;
    }
    std::vector<float> values(numel, rank == 0 ? 0.25F : 0.5F);
    worker.AllReduce({values.data(), values.data(), numel, FLOAT32}, SUM);
    for (const float value : values) {
      if (std::abs(value - 0.75F) > 1e-6F) Fail(0, "a wrong float32 sum");
    }
  }

  const Endpoint endpoint_;
  std::mutex mutex_;
  std::condition_variable changed_;
  long wanted_ = 0;
  std::array<long, kWorkers> done_{};
  bool ending_ = false;
  std::array<std::thread, kWorkers> threads_;
};

// A connection of a stranger, whose source address is one of many: ports are left in TIME_WAIT.
Fd Dial(const Endpoint& endpoint, std::uint64_t number) {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in from{};
  from.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl(0x7f000002U + static_cast<uint32_t>(number % 200));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(endpoint.port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&from), sizeof from) != 0 ||
      connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
    Fail(number, std::string("connect: ") + std::strerror(errno));
  }
  return fd;
}

void SendAll(const Fd& fd, const Octets& octets, Inputs& inputs) {
  for (size_t sent = 0; sent < octets.size();) {
    const size_t rest = octets.size() - sent;
    const size_t part = inputs.OneIn(4) ? 1 + inputs.Below(rest) : rest;
    const ssize_t done = send(fd.get(), octets.data() + sent, part, MSG_NOSIGNAL);
    if (done <= 0) return;  // refused meanwhile
    sent += static_cast<size_t>(done);
  }
}

// All that the aggregator says, until it closes the connection.
Octets Answers(const Fd& fd, std::uint64_t number) {
  Octets answers;
  shutdown(fd.get(), SHUT_WR);
  for (;;) {
    std::array<std::uint8_t, 65536> part;
    pollfd entry{fd.get(), POLLIN, 0};
    if (poll(&entry, 1, static_cast<int>(kEnough.count())) <= 0) Fail(number, "left open");
    const ssize_t bytes = recv(fd.get(), part.data(), part.size(), 0);
    if (bytes <= 0) return answers;
    answers.insert(answers.end(), part.begin(), part.begin() + bytes);
  }
}

Octets FrameOf(FrameKind kind, const Octets& payload, uint64_t sequence = 0) {
  Octets octets;
  Append(octets, FrameHeader{kind, static_cast<uint32_t>(payload.size()), sequence});
  octets.insert(octets.end(), payload.begin(), payload.end());
  return octets;
}

Octets HelloFrame(Inputs& inputs, Hello hello, std::uint64_t faults) {
  for (; faults > 0; --faults) {
    switch (inputs.Below(9)) {
      case 0:
        inputs.Spoil(hello.magic);
        break;
      case 1:
        hello.limit_ms = inputs.Below(40);
        break;
      case 2:
        inputs.Spoil(hello.packet_numel);
        break;
      case 3:
        inputs.Spoil(hello.version);
        break;
      case 4:
        inputs.Spoil(hello.max_outstanding_packets);
        break;
      case 5:
        inputs.Spoil(hello.rank);
        break;
      case 6:
        inputs.Spoil(hello.num_workers);
        break;
      case 7:
        inputs.Spoil(hello.num_worker_threads);
        break;
      default:
        inputs.Spoil(hello.quantizer);
    }
  }
  Octets payload;
  Append(payload, hello);
  return FrameOf(FrameKind::kHello, payload);
}

Octets AnyFrame(Inputs& inputs) {
  FrameHeader header{};
  header.kind = static_cast<FrameKind>(static_cast<uint32_t>(FrameKind::kHello) +
                                       static_cast<uint32_t>(inputs.Below(10)));
  header.bytes = inputs.Number<uint32_t>();
  header.sequence = inputs.Number<uint64_t>();
  Octets octets;
  Append(octets, header);
  const Octets payload = inputs.Garbage(200);
  octets.insert(octets.end(), payload.begin(), payload.end());
  return octets;
}

void Add(Octets& octets, const Octets& more) {
  octets.insert(octets.end(), more.begin(), more.end());
}

// Words of a stranger, whose session is not its own.
Octets Said(Inputs& inputs) {
  Octets octets;
  switch (inputs.Below(5)) {
    case 0:
      return inputs.Garbage(300);
    case 1:
      octets = AnyFrame(inputs);
      break;
    default:
      octets = HelloFrame(inputs, ValidHello(static_cast<uint16_t>(inputs.Below(kWorkers))),
                          inputs.Below(4));
  }
  while (inputs.OneIn(3)) Add(octets, AnyFrame(inputs));
  while (inputs.OneIn(3)) inputs.Change(octets);
  return octets;
}

// Nothing, or one reason.
void CheckRefusal(const Octets& answers, std::uint64_t number) {
  if (answers.empty()) return;
  FrameHeader header;
  if (answers.size() < sizeof header) Fail(number, "half a header");
  std::memcpy(&header, answers.data(), sizeof header);
  if (header.kind != FrameKind::kRefused || answers.size() != sizeof header + header.bytes) {
    Fail(number, "a stranger got something else than a reason");
  }
}

void BeStranger(const Endpoint& endpoint, std::uint64_t number, std::deque<Fd>& open) {
  Inputs inputs(number);
  Fd fd = Dial(endpoint, number);
  SendAll(fd, Said(inputs), inputs);
  switch (inputs.Below(8)) {
    case 0: {  // a reset
      const linger none{1, 0};
      setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
      return;
    }
    case 1:
      open.push_back(std::move(fd));
      if (open.size() > kLeftOpen) open.pop_front();
      return;
    default:
      CheckRefusal(Answers(fd, number), number);
  }
}

// A worker's side of a session: jobs and steps as they should be, or nearly.
Octets MemberSays(Inputs& inputs, const Hello& hello, const std::vector<JobHeader>& jobs,
                  bool faulty) {
  Octets octets = HelloFrame(inputs, hello, faulty && inputs.OneIn(6));
  const std::uint64_t spoiled = faulty ? inputs.Below(12) : ~std::uint64_t{0};
  std::uint64_t frame = 0;
  for (uint64_t job = 0; job < jobs.size(); ++job) {
    JobHeader header = jobs[job];
    if (frame++ == spoiled) {
      inputs.OneIn(2) ? inputs.Spoil(header.numel) : inputs.Spoil(header.data_type);
    }
    Octets payload;
    Append(payload, header);
    Add(octets, FrameOf(FrameKind::kJob, payload, job));
    if (!Invalid(header).empty() || header.numel > 100'000) continue;
    const JobPlan plan = MakePlan(header, hello);
    for (uint64_t index = 0; index < plan.steps(); ++index) {
      FrameHeader step = StepHeader(plan, plan.step(index));
      Octets data(step.bytes);
      for (std::uint8_t& octet : data) octet = static_cast<std::uint8_t>(inputs.Below(256));
      if (frame++ == spoiled) {
        switch (inputs.Below(3)) {
          case 0:
            inputs.Spoil(step.bytes);
            break;
          case 1:
            inputs.Spoil(step.sequence);
            break;
          default:
            step.kind = FrameKind::kJob;
        }
      }
      Append(octets, step);
      Add(octets, data);
    }
  }
  if (inputs.OneIn(2)) Add(octets, FrameOf(FrameKind::kGoodbye, {}));
  if (faulty && inputs.OneIn(2)) inputs.Change(octets);
  return octets;
}

void BeSession(const Endpoint& endpoint, std::uint64_t number) {
  Inputs inputs(number);
  Hello hello = ValidHello(0);
  hello.limit_ms = 20;  // of waiting for a rank that was refused
  hello.num_worker_threads = static_cast<uint16_t>(1 + inputs.Below(8));
  hello.packet_numel = inputs.Of<uint64_t>({1, 3, 64, 256, 1000, 1 << 22});
  hello.quantizer = static_cast<uint8_t>(inputs.Below(2));
  std::vector<JobHeader> jobs(1 + inputs.Below(3));
  for (JobHeader& job : jobs) {
    const bool wild = inputs.OneIn(12);  // the same on both ranks
    job = {wild ? inputs.Number<uint64_t>() : inputs.Below(2000),
           static_cast<uint32_t>(inputs.Below(wild ? 4 : 2)),
           static_cast<uint32_t>(wild ? inputs.Below(2) : 0)};
  }
  std::array<Fd, kWorkers> fds;
  const std::uint64_t faulty = inputs.Below(kWorkers + 1);  // a rank, or all
  for (uint16_t rank = 0; rank < kWorkers; ++rank) {
    hello.rank = rank;
    fds[rank] = Dial(endpoint, number);
    SendAll(fds[rank], MemberSays(inputs, hello, jobs, faulty == rank || faulty == kWorkers),
            inputs);
    if (inputs.OneIn(4)) shutdown(fds[rank].get(), SHUT_WR);
  }
  for (const Fd& fd : fds) Answers(fd, number);
}

size_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

void Run(std::uint64_t first, std::uint64_t count) {
  Server beside;
  Server own;
  Honest honest(beside.endpoint());
  long sums = 1;
  honest.Require(sums);
  std::deque<Fd> open;
  for (std::uint64_t number = first; number < first + count; ++number) {
    if (number % 3 == 0) {
      BeSession(own.endpoint(), number);
    } else {
      BeStranger(beside.endpoint(), number, open);
    }
    if (number % 4 == 0) honest.Require(++sums);
    if (number % kRound == 0) {
      Honest next(own.endpoint());
      next.Require(2);
      next.End();
    }
  }
  honest.End();
  const Tally& lasting = beside.End();
  if (lasting.sessions != 1 || lasting.broken != 0) Fail(first + count, "the session did not last");
  const Tally& others = own.End();
  std::printf("inputs %ju, sums beside them %ld, refused %ju, sessions of their own %ju\n",
              uintmax_t{count}, sums, uintmax_t{lasting.refused}, uintmax_t{others.sessions});
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  const std::uint64_t first = std::stoull(words[1]);
  const size_t before = OpenDescriptors();
  Run(first, std::stoull(words[2]));
  if (OpenDescriptors() != before) Fail(first, "descriptors were left open");
}
