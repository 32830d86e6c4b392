#include "plane.h"

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

// A client that wrote just when it was told to interrupt may not have seen it.
constexpr milliseconds kOnceMore(1);
constexpr milliseconds kPending(1);
constexpr milliseconds kTend(500);
constexpr unsigned kTurns = 16;  // of ports, before the poller is asked for what else there is

std::unique_ptr<Port> Made(Poller& poller, const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const std::string name = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (kind == "memif" && !name.empty()) return std::make_unique<MemifPort>(poller, name);
  if (kind == "packet" && !name.empty()) return std::make_unique<PacketPort>(poller, name);
  throw std::runtime_error(text + ": no port; it is memif:PATH or packet:INTERFACE");
}

// The two directions are independent of each other.
FaultPlan Other(FaultPlan plan) {
  plan.seed = ~plan.seed;
  return plan;
}

}  // namespace

Plane::Plane(const std::vector<std::string>& ports, const FaultPlan& plan)
    : plan_(plan),
      faulty_(plan.Any()),
      inwards_(plan),
      outwards_(Other(plan)),
      bell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!bell_) throw std::runtime_error(Failure("eventfd"));
  ringing_ = poller_.Add(bell_, EPOLLIN, [this] { DoTasks(); });
  for (const std::string& port : ports) ports_.push_back(Made(poller_, port));
}

void Plane::Do(std::function<void()> task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(bell_.get(), &one, sizeof one);
}

void Plane::DoTasks() {
  std::uint64_t rung = 0;
  [[maybe_unused]] const ssize_t bytes = read(bell_.get(), &rung, sizeof rung);
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const std::function<void()>& task : tasks) task();
}

void Plane::Stop() {
  Do([this] { stop_ = true; });
}

void Plane::Apply(std::shared_ptr<const Session> session, bool fresh) {
  std::promise<void> done;
  Do([&] {
    if (fresh) {
      core_.Begin(std::move(session));
      // A frame names no session: a late one would be summed in this one.
      for (Faults* faults : {&inwards_, &outwards_}) faults->Drop();
      bound_.fill({});
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

Time Plane::LastPacket() const { return Time(Duration(last_packet_.load())); }

void Plane::Run() {
  Time tended{};
  bool waking = true;  // arrivals wake the poller
  bool waited = false;
  while (!stop_) {
    bool any = false;
    for (unsigned turn = 0; turn < kTurns && Turn(); ++turn) any = true;
    if (any) {
      // Interrupts cost the clients a system call each, and are not needed while there is work.
      if (std::exchange(waking, false)) {
        for (const auto& port : ports_) port->Wake(false);
      }
      waited = false;
      poller_.Wait(milliseconds(0));
    } else if (!waking) {
      waking = true;
      for (const auto& port : ports_) port->Wake(true);
    } else {
      std::optional<milliseconds> limit = kTend;
      if (!std::exchange(waited, true)) limit = kOnceMore;
      for (const auto& port : ports_) {
        if (port->Pending()) limit = std::min(*limit, kPending);
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
    if (now_ - tended >= kTend) {
      tended = now_;
      for (const auto& port : ports_) port->Tend();
    }
    LookForDepartures();
  }
  counters_.duplicated = inwards_.duplicated() + outwards_.duplicated();
  counters_.overtaken = inwards_.overtaken() + outwards_.overtaken();
}

// A batch of each port, summed and sent.
bool Plane::Turn() {
  bool any = false;
  if (faulty_) now_ = steady_clock::now();
  for (std::size_t port = 0; port < ports_.size(); ++port) {
    any |= ports_[port]->Receive(
        [&](std::uint16_t queue, Bytes frame) { Arrived(port, queue, frame); });
  }
  if (faulty_) {
    inwards_.Give(now_, [&](const Parcel& parcel) {
      Sum(parcel.port, parcel.queue, {parcel.frame.data(), parcel.frame.size()});
    });
    outwards_.Give(now_, [&](const Parcel& parcel) {
      ports_[parcel.port]->Send(parcel.queue, {parcel.frame.data(), parcel.frame.size()}, {});
    });
  }
  for (const auto& port : ports_) port->Flush();
  if (std::exchange(heard_, false)) last_packet_ = steady_clock::now().time_since_epoch().count();
  return any;
}

void Plane::Arrived(std::size_t port, std::uint16_t queue, Bytes frame) {
  if (!faulty_) return Sum(port, queue, frame);
  const std::optional<std::size_t> rank = core_.RankOf(frame);
  Parcel parcel = {port, queue, rank.value_or(0), {frame.data, frame.data + frame.size}};
  const bool lost = plan_.lose_from == port || !inwards_.Take(now_, std::move(parcel));
  if (lost && rank) ++counters_.workers[*rank].lost;
}

void Plane::Sum(std::size_t port, std::uint16_t queue, Bytes frame) {
  const std::optional<std::size_t> rank = core_.RankOf(frame);
  if (!rank) {
    ++counters_.foreign;
    return;
  }
  WorkerCounters& worker = counters_.workers[*rank];
  ++worker.received;
  Bound& bound = bound_[*rank];
  if (bound.known && bound.port != port) {
    ++worker.elsewhere;
    return;
  }
  Answer answer = core_.Take(*rank, frame);
  if (answer.verdict == Verdict::kMalformed) {
    ++worker.malformed;
    return;
  }
  heard_ = true;
  if (!bound.known) bound = {true, port, ports_[port]->departures()};

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

void Plane::Send(std::size_t rank, std::uint16_t queue, Bytes head, Bytes values) {
  const Bound& bound = bound_[rank];
  if (!bound.known) return;
  ++counters_.workers[rank].answered;
  if (!faulty_) return ports_[bound.port]->Send(queue, head, values);
  Parcel parcel = {bound.port, queue, rank, {head.data, head.data + head.size}};
  parcel.frame.insert(parcel.frame.end(), values.data, values.data + values.size);
  const bool lost = plan_.lose_to == bound.port || !outwards_.Take(now_, std::move(parcel));
  if (lost) ++counters_.workers[rank].answers_lost;
}

void Plane::LookForDepartures() {
  for (const Bound& bound : bound_) {
    if (bound.known && ports_[bound.port]->departures() != bound.departures) broken_ = true;
  }
}

}  // namespace softswitch
