#include "group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "reduce.h"

namespace switchml {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kDeliveryLimit{1000};
// More frames than a worker that reads its answers ever has queued.
constexpr size_t kMaxQueued = 4 * JobPlan::kLookahead;

std::string Rank(size_t rank) { return "rank " + std::to_string(rank); }

}  // namespace

Group::Group(const Hello& reference, Counters& counters)
    : reference_(reference),
      limit_(JobLimit(reference)),
      counters_(counters),
      workers_(reference.num_workers) {
  ++counters_.sessions;
}

bool Group::empty() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) { return !worker; });
}

std::string Group::RefusalReason(const Hello& hello) const {
  const std::string disagreement = MismatchReason(reference_, hello);
  if (!disagreement.empty()) {
    return disagreement;
  }
  if (ended()) {
    return "the job is over: " + failure_;
  }
  return workers_[hello.rank] ? Rank(hello.rank) + " is taken by another process" : "";
}

void Group::Join(Lobby::Arrival arrival) {
  arrival.connection->Queue(TextFrame(FrameKind::kWelcome, ""));
  ++counters_.workers[arrival.hello.rank].joined;
  workers_[arrival.hello.rank] = std::move(arrival.connection);
}

void Group::Advance() {
  while (CanCombine()) {
    Combine();
    Flush();
  }
  Flush();
}

void Group::Watch(std::vector<pollfd>& entries) const {
  for (const auto& worker : workers_) {
    if (!worker) {
      continue;
    }
    // A worker whose frame waits for those of the others is not read, only watched for its end.
    const short in = worker->HasFrame() && !ended() ? POLLRDHUP : POLLIN;
    const short out = worker->Queued() > 0 ? POLLOUT : 0;
    entries.push_back({worker->fd().get(), static_cast<short>(in | out), 0});
  }
}

const pollfd* Group::Serve(const pollfd* entries) {
  for (uint16_t rank = 0; rank < workers_.size(); ++rank) {
    if (workers_[rank] && (entries++->revents & ~POLLOUT) != 0) {
      Read(rank);
    }
  }
  return entries;
}

void Group::Read(uint16_t rank) {
  Connection& worker = *workers_[rank];
  if (ended()) {
    if (!worker.Discard()) {
      Remove(rank);
    }
    return;
  }
  using Event = Connection::Event;
  Event event = worker.HasFrame() ? Event::kClosed : worker.Read();
  if (event == Event::kHeader) {
    const FrameHeader& header = worker.header();
    if (header.kind == FrameKind::kGoodbye) {
      Remove(rank);
      Idle() ? End(Rank(rank) + " has stopped") : Fail(Rank(rank) + " has stopped");
      return;
    }
    const FrameHeader expected = Expected();
    if (std::memcmp(&header, &expected, sizeof expected) != 0) {
      Fail(Rank(rank) + " sent a malformed message");
      return;
    }
    event = worker.Read();
  }
  if (event == Event::kClosed) {
    Remove(rank);
    Fail("the connection of " + Rank(rank) + " broke");
  } else if (!step_began_ && worker.InFrame()) {
    step_began_ = Clock::now();
  }
}

void Group::Remove(uint16_t rank) {
  counters_.workers[rank].received += workers_[rank]->received();
  counters_.workers[rank].sent += workers_[rank]->sent();
  workers_[rank].reset();
}

TimePoint Group::NextDeadline() const {
  return step_began_ ? *step_began_ + limit_ : TimePoint::max();
}

void Group::CheckLimit() {
  if (!step_began_ || CanCombine() || Clock::now() < *step_began_ + limit_) {
    return;
  }
  std::string late;
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    const bool waits = workers_[rank] && workers_[rank]->HasFrame();
    if (!waits || workers_[rank]->Queued() >= kMaxQueued) {
      late += (late.empty() ? "" : ", ") + Rank(rank);
    }
  }
  Fail("job " + std::to_string(jobs_) + " waited " + std::to_string(limit_.count()) + " ms for " +
       late);
}

FrameHeader Group::Expected() const {
  return plan_ ? StepHeader(*plan_, plan_->step(step_))
               : FrameHeader{FrameKind::kJob, sizeof(JobHeader), jobs_};
}

bool Group::Idle() const { return !plan_ && !step_began_; }

bool Group::CanCombine() const {
  return !ended() && std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) {
    return worker && worker->HasFrame() && worker->Queued() < kMaxQueued;
  });
}

void Group::Combine() {
  const SharedFrame answer = plan_ ? CombineStep() : CombineJobs();
  if (ended()) {
    return;
  }
  for (const auto& worker : workers_) {
    worker->Release();
    if (answer) {
      worker->Queue(answer);
    }
  }
  step_began_.reset();
  if (step_ == plan_->steps()) {
    plan_.reset();
    ++jobs_;
    ++counters_.jobs;
    counters_.elements += job_.numel;
  }
}

SharedFrame Group::CombineJobs() {
  std::memcpy(&job_, workers_[0]->payload().data(), sizeof job_);
  for (size_t rank = 1; rank < workers_.size(); ++rank) {
    JobHeader other;
    std::memcpy(&other, workers_[rank]->payload().data(), sizeof other);
    if (std::memcmp(&other, &job_, sizeof other) != 0) {
      Fail("job " + std::to_string(jobs_) + " is " + Describe(job_) + " at rank 0 and " +
           Describe(other) + " at " + Rank(rank));
      return nullptr;
    }
  }
  if (const std::string invalid = InvalidReason(job_); !invalid.empty()) {
    Fail("job " + std::to_string(jobs_) + ": " + invalid);
    return nullptr;
  }
  plan_ = MakePlan(job_, reference_);
  step_ = 0;
  if (plan_->steps() > 0) {
    return nullptr;
  }
  auto answer = std::make_shared<Frame>();
  answer->header = {FrameKind::kJob, 0, jobs_};
  return answer;
}

SharedFrame Group::CombineStep() {
  auto answer = std::make_shared<Frame>();
  answer->header = Expected();
  answer->payload = workers_[0]->payload();
  const auto combine = answer->header.kind == FrameKind::kExponents      ? MaxInt32
                       : plan_->quantized() || job_.data_type != FLOAT32 ? AddInt32
                                                                         : AddFloat32;
  for (size_t rank = 1; rank < workers_.size(); ++rank) {
    combine(workers_[rank]->payload(), answer->payload);
  }
  ++step_;
  return answer;
}

void Group::Flush() {
  for (uint16_t rank = 0; rank < workers_.size(); ++rank) {
    if (workers_[rank] && !workers_[rank]->Flush()) {
      Remove(rank);
      Fail("the connection of " + Rank(rank) + " broke");
    }
  }
}

void Group::Fail(const std::string& reason) {
  counters_.broken += !ended();
  End(reason);
}

void Group::End(const std::string& reason) {
  if (ended()) {
    return;
  }
  failure_ = reason;
  step_began_.reset();
  const SharedFrame frame = TextFrame(FrameKind::kFailed, reason);
  for (const auto& worker : workers_) {
    if (worker) {
      worker->Queue(frame);
    }
  }
}

void Group::Deliver() {
  const TimePoint deadline = Clock::now() + kDeliveryLimit;
  for (uint16_t rank = 0; rank < workers_.size(); ++rank) {
    if (!workers_[rank]) {
      continue;
    }
    Connection& worker = *workers_[rank];
    while (worker.Flush() && worker.Queued() > 0 && WaitFor(worker.fd(), POLLOUT, deadline)) {
    }
    // Closing with unread bytes would reset the connection, and drop the frames that were sent.
    worker.Discard();
    Remove(rank);
  }
}

}  // namespace switchml
