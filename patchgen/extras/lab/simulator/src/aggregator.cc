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

Aggregator::Aggregator(const Endpoint& endpoint, uint16_t num_workers, milliseconds patience,
                       bool alone)
    : num_workers_(num_workers),
      alone_(alone),
      lobby_(Listen(endpoint), patience, num_workers),
      tally_(num_workers) {}

Aggregator::Aggregator(const Endpoint& endpoint, const Hello& reference)
    : Aggregator(endpoint, reference.num_workers, std::min(JobLimit(reference), kHelloLimit),
                 false) {
  groups_.push_back(std::make_unique<Group>(reference, tally_));
}

Aggregator::Aggregator(const Endpoint& endpoint, uint16_t num_workers)
    : Aggregator(endpoint, num_workers, kHelloLimit, true) {}

void Aggregator::Run(const Fd& end) {
  do {
    for (const auto& group : groups_) {
      group->CheckLimit();
      group->Advance();
    }
    if (alone_) {
      ForgetThoseGone();
    }
  } while (Serve(end));
  // Results of finished jobs are still owed.
  for (const auto& group : groups_) {
    group->End(Name() + " has stopped");
    group->Deliver();
  }
  groups_.clear();
}

// Waits until there is something to do, and reads all that has arrived. False at the end.
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
  for (Lobby::Guest& guest : lobby_.Serve(entry)) {
    Admit(std::move(guest));
  }
  return true;
}

void Aggregator::Admit(Lobby::Guest guest) {
  std::string refusal = Misfit(guest.hello, num_workers_, Name());
  if (refusal.empty()) {
    if (alone_ && (groups_.empty() || groups_.back()->over())) {
      groups_.push_back(std::make_unique<Group>(guest.hello, tally_));
    }
    refusal = groups_.back()->Refusal(guest.hello);
  }
  if (refusal.empty()) {
    groups_.back()->Join(std::move(guest));
    return;
  }
  ++tally_.refused;
  if (alone_) {
    Log("refused rank " + std::to_string(guest.hello.rank) + ": " + refusal);
  }
  guest.connection->Queue(TextFrame(FrameKind::kRefused, refusal));
  guest.connection->Flush();
}

void Aggregator::ForgetThoseGone() {
  const auto gone = [](const auto& group) { return group->over() && group->empty(); };
  groups_.erase(std::remove_if(groups_.begin(), groups_.end(), gone), groups_.end());
}

std::string Aggregator::Name() const { return alone_ ? "the aggregator" : "rank 0"; }

}  // namespace switchml
