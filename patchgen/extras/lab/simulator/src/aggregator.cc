#include "aggregator.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "log.h"

namespace switchml {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kHelloLimit{5000};

}  // namespace

Aggregator::Aggregator(const Endpoint& endpoint, uint16_t num_workers, milliseconds hello_timeout,
                       bool standalone)
    : num_workers_(num_workers),
      standalone_(standalone),
      lobby_(Listen(endpoint), hello_timeout, num_workers),
      counters_(num_workers) {}

Aggregator::Aggregator(const Endpoint& endpoint, const Hello& reference)
    : Aggregator(endpoint, reference.num_workers, std::min(JobLimit(reference), kHelloLimit),
                 false) {
  groups_.push_back(std::make_unique<Group>(reference, counters_));
}

Aggregator::Aggregator(const Endpoint& endpoint, uint16_t num_workers)
    : Aggregator(endpoint, num_workers, kHelloLimit, true) {}

void Aggregator::Run(const Fd& end) {
  do {
    for (const auto& group : groups_) {
      group->CheckLimit();
      group->Advance();
    }
    if (standalone_) {
      RemoveEmptyGroups();
    }
  } while (Serve(end));
  // Workers still wait for the answers of finished jobs.
  for (const auto& group : groups_) {
    group->End(Name() + " has stopped");
    group->Deliver();
  }
  groups_.clear();
}

bool Aggregator::Serve(const Fd& end) {
  entries_.assign({{end.get(), POLLIN, 0}});
  TimePoint deadline = lobby_.NextDeadline();
  for (const auto& group : groups_) {
    group->Watch(entries_);
    deadline = std::min(deadline, group->NextDeadline());
  }
  lobby_.Watch(entries_);
  const int timeout = deadline == TimePoint::max() ? -1 : PollTimeout(deadline);
  if (poll(entries_.data(), entries_.size(), timeout) < 0) {
    if (errno != EINTR) {
      throw LinkError(std::string("poll: ") + std::strerror(errno));
    }
    return true;
  }
  if (entries_[0].revents != 0) {
    return false;
  }
  const pollfd* entry = entries_.data() + 1;
  for (const auto& group : groups_) {
    entry = group->Serve(entry);
  }
  for (Lobby::Arrival& arrival : lobby_.Serve(entry)) {
    Admit(std::move(arrival));
  }
  return true;
}

void Aggregator::Admit(Lobby::Arrival arrival) {
  std::string refusal = UnsuitedReason(arrival.hello, num_workers_, Name());
  if (refusal.empty()) {
    if (standalone_ && (groups_.empty() || groups_.back()->ended())) {
      groups_.push_back(std::make_unique<Group>(arrival.hello, counters_));
    }
    refusal = groups_.back()->RefusalReason(arrival.hello);
  }
  if (refusal.empty()) {
    groups_.back()->Join(std::move(arrival));
    return;
  }
  ++counters_.refused;
  if (standalone_) {
    Log("refused rank " + std::to_string(arrival.hello.rank) + ": " + refusal);
  }
  arrival.connection->Queue(TextFrame(FrameKind::kRefused, refusal));
  arrival.connection->Flush();
}

void Aggregator::RemoveEmptyGroups() {
  const auto removable = [](const auto& group) { return group->ended() && group->empty(); };
  groups_.erase(std::remove_if(groups_.begin(), groups_.end(), removable), groups_.end());
}

std::string Aggregator::Name() const { return standalone_ ? "the aggregator" : "rank 0"; }

}  // namespace switchml
