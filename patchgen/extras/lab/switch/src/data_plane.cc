#include "data_plane.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <optional>
#include <stdexcept>
#include <utility>

#include "memif_port.h"
#include "packet_port.h"

namespace softswitch {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Limit of the first wait after Wake(true): a client that wrote at that moment may have missed it.
constexpr milliseconds kFirstWait(1);
constexpr milliseconds kPendingWait(1);
constexpr milliseconds kTendInterval(500);
constexpr unsigned kTurns = 16;  // of all ports, before other events are polled

std::unique_ptr<Port> MakePort(Poller& poller, const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const std::string name = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (kind == "memif" && !name.empty()) return std::make_unique<MemifPort>(poller, name);
  if (kind == "packet" && !name.empty()) return std::make_unique<PacketPort>(poller, name);
  throw std::runtime_error(text + ": not memif:PATH or packet:INTERFACE");
}

// Plan with another seed, so that the faults of both directions are independent.
FaultPlan WithOtherSeed(FaultPlan plan) {
  plan.seed = ~plan.seed;
  return plan;
}

}  // namespace

DataPlane::DataPlane(const std::vector<std::string>& ports, const FaultPlan& plan)
    : plan_(plan),
      faulty_(plan.Any()),
      inwards_(plan),
      outwards_(WithOtherSeed(plan)),
      wakeup_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!wakeup_) throw std::runtime_error(Failure("eventfd"));
  wakeup_name_ = poller_.Add(wakeup_, EPOLLIN, [this] { RunTasks(); });
  for (const std::string& port : ports) ports_.push_back(MakePort(poller_, port));
}

void DataPlane::Post(std::function<void()> task) {
  {
    const lab::MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wakeup_.get(), &one, sizeof one);
}

void DataPlane::RunTasks() {
  std::uint64_t rung = 0;
  [[maybe_unused]] const ssize_t bytes = read(wakeup_.get(), &rung, sizeof rung);
  std::vector<std::function<void()>> tasks;
  {
    const lab::MutexLock lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const std::function<void()>& task : tasks) task();
}

void DataPlane::Stop() {
  Post([this] { stop_ = true; });
}

void DataPlane::Apply(std::shared_ptr<const Session> session, bool fresh) {
  std::promise<void> done;
  Post([&] {
    if (fresh) {
      core_.Begin(std::move(session));
      // A frame does not name its session: a late frame would be summed in the new one.
      for (Faults* faults : {&inwards_, &outwards_}) faults->Drop();
      worker_ports_.fill({});
      broken_ = false;
      ++counters_.sessions;
    } else {
      core_.Update(std::move(session));
    }
    last_packet_ = steady_clock::now().time_since_epoch().count();
    done.set_value();
  });
  done.get_future().wait();
}

Time DataPlane::LastPacket() const { return Time(Duration(last_packet_.load())); }

void DataPlane::Run() {
  Time tended{};
  bool waking = true;  // frames that arrive wake the poller
  bool waited = false;
  while (!stop_) {
    bool any = false;
    for (unsigned turn = 0; turn < kTurns && Turn(); ++turn) any = true;
    if (any) {
      // Each interrupt costs a client a system call, and is not needed while frames arrive.
      if (std::exchange(waking, false)) {
        for (const auto& port : ports_) port->Wake(false);
      }
      waited = false;
      poller_.Wait(milliseconds(0));
    } else if (!waking) {
      waking = true;
      for (const auto& port : ports_) port->Wake(true);
    } else {
      std::optional<milliseconds> limit = kTendInterval;
      if (!std::exchange(waited, true)) limit = kFirstWait;
      for (const auto& port : ports_) {
        if (port->Pending()) limit = std::min(*limit, kPendingWait);
      }
      for (const Faults* faults : {&inwards_, &outwards_}) {
        if (const std::optional<Time> due = faults->Due()) {
          const auto left = std::chrono::ceil<milliseconds>(*due - steady_clock::now());
          limit = std::clamp(left, milliseconds(0), *limit);
        }
      }
      poller_.Wait(limit);
    }
    now_ = steady_clock::now();
    if (now_ - tended >= kTendInterval) {
      tended = now_;
      for (const auto& port : ports_) port->Tend();
    }
    CheckDepartures();
  }
  counters_.duplicated = inwards_.duplicated() + outwards_.duplicated();
  counters_.overtaken = inwards_.overtaken() + outwards_.overtaken();
}

bool DataPlane::Turn() {
  bool any = false;
  if (faulty_) now_ = steady_clock::now();
  for (std::size_t port = 0; port < ports_.size(); ++port) {
    any |= ports_[port]->Receive(
        [&](std::uint16_t queue, Bytes frame) { Arrived(port, queue, frame); });
  }
  if (faulty_) {
    inwards_.Give(now_, [&](const FrameInTransit& transit) {
      Sum(transit.port, transit.queue, {transit.frame.data(), transit.frame.size()});
    });
    outwards_.Give(now_, [&](const FrameInTransit& transit) {
      ports_[transit.port]->Send(transit.queue, {transit.frame.data(), transit.frame.size()}, {});
    });
  }
  for (const auto& port : ports_) port->Flush();
  if (std::exchange(had_packet_, false))
    last_packet_ = steady_clock::now().time_since_epoch().count();
  return any;
}

void DataPlane::Arrived(std::size_t port, std::uint16_t queue, Bytes frame) {
  if (!faulty_) return Sum(port, queue, frame);
  const std::optional<std::size_t> rank = core_.RankOf(frame);
  FrameInTransit transit = {port, queue, rank.value_or(0), {frame.data, frame.data + frame.size}};
  const bool lost = plan_.lose_from == port || !inwards_.Take(now_, std::move(transit));
  if (lost && rank) ++counters_.workers[*rank].lost;
}

void DataPlane::Sum(std::size_t port, std::uint16_t queue, Bytes frame) {
  const std::optional<std::size_t> rank = core_.RankOf(frame);
  if (!rank) {
    ++counters_.foreign;
    return;
  }
  WorkerCounters& worker = counters_.workers[*rank];
  ++worker.received;
  WorkerPort& worker_port = worker_ports_[*rank];
  if (worker_port.known && worker_port.port != port) {
    ++worker.elsewhere;
    return;
  }
  Answer answer = core_.Take(*rank, frame);
  if (answer.verdict == Verdict::kMalformed) {
    ++worker.malformed;
    return;
  }
  had_packet_ = true;
  if (!worker_port.known) worker_port = {true, port, ports_[port]->departures()};

  SetCounters& set = counters_.sets[answer.set];
  ++set.received;
  switch (answer.verdict) {
    case Verdict::kKnown:
      ++worker.resent;
      ++set.resent;
      break;
    case Verdict::kAgain:
      ++worker.resent;
      ++set.resent;
      ++worker.answered_again;
      ++set.answered_again;
      Send(*rank, queue, answer.head.To(*core_.session().workers[*rank]), answer.values);
      break;
    case Verdict::kComplete:
      ++set.complete;
      for (std::size_t each = 0; each < core_.session().workers.size(); ++each) {
        const std::optional<Address>& address = core_.session().workers[each];
        if (address) Send(each, queue, answer.head.To(*address), answer.values);
      }
      [[fallthrough]];
    default:
      ++worker.summed;
      ++set.summed;
  }
}

void DataPlane::Send(std::size_t rank, std::uint16_t queue, Bytes head, Bytes values) {
  const WorkerPort& worker_port = worker_ports_[rank];
  if (!worker_port.known) return;
  ++counters_.workers[rank].answered;
  if (!faulty_) return ports_[worker_port.port]->Send(queue, head, values);
  FrameInTransit transit = {worker_port.port, queue, rank, {head.data, head.data + head.size}};
  transit.frame.insert(transit.frame.end(), values.data, values.data + values.size);
  const bool lost = plan_.lose_to == worker_port.port || !outwards_.Take(now_, std::move(transit));
  if (lost) ++counters_.workers[rank].answers_lost;
}

void DataPlane::CheckDepartures() {
  for (const WorkerPort& worker_port : worker_ports_) {
    if (worker_port.known && ports_[worker_port.port]->departures() != worker_port.departures)
      broken_ = true;
  }
}

}  // namespace softswitch
