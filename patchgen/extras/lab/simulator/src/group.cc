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
// More than a worker that reads its answers ever has outstanding.
constexpr size_t kMaxQueued = 4 * JobPlan::kLookahead;

std::string Rank(size_t rank) { return "rank " + std::to_string(rank); }

}  // namespace

Group::Group(const Hello& reference, Tally& tally)
    : reference_(reference),
      limit_(JobLimit(reference)),
      tally_(tally),
      workers_(reference.num_workers) {
  ++tally_.sessions;
}

bool Group::empty() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) { return !worker; });
}

std::string Group::Refusal(const Hello& hello) const {
  const std::string disagreement = Disagreement(reference_, hello);
  if (!disagreement.empty()) {
    return disagreement;
  }
  if (over()) {
    return "the job is over: " + failure_;
  }
  return workers_[hello.rank] ? Rank(hello.rank) + " is taken by another process" : "";
}

void Group::Join(Lobby::Guest guest) {
  guest.connection->Queue(TextFrame(FrameKind::kWelcome, ""));
  ++tally_.workers[guest.hello.rank].joined;
  workers_[guest.hello.rank] = std::move(guest.connection);
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
    // A worker whose frame waits for the others is not read, but its death must be seen.
    const short in = worker->HasFrame() && !over() ? POLLRDHUP : POLLIN;
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
  if (over()) {
    if (!worker.Discard()) {
      Part(rank);
    }
    return;
  }
  using Event = Connection::Event;
  Event event = worker.HasFrame() ? Event::kClosed : worker.Read();
  if (event == Event::kHeader) {
    const FrameHeader& header = worker.header();
    if (header.kind == FrameKind::kGoodbye) {
      Part(rank);
      Idle() ? End(Rank(rank) + " has stopped") : Break(Rank(rank) + " has stopped");
      return;
    }
    const FrameHeader expected = Expected();
    if (std::memcmp(&header, &expected, sizeof expected) != 0) {
      Break(Rank(rank) + " sent a malformed message");
      return;
    }
    event = worker.Read();
  }
  if (event == Event::kClosed) {
    Part(rank);
    Break("the connection of " + Rank(rank) + " broke");
  } else if (!step_began_ && worker.InFrame()) {
    step_began_ = Clock::now();
  }
}

void Group::Part(uint16_t rank) {
  tally_.workers[rank].received += workers_[rank]->received();
  tally_.workers[rank].sent += workers_[rank]->sent();
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
  Break("job " + std::to_string(jobs_) + " waited " + std::to_string(limit_.count()) + " ms for " +
        late);
}

// Frame that every worker has to send next, unless it says goodbye.
FrameHeader Group::Expected() const {
  return plan_ ? StepHeader(*plan_, plan_->step(step_))
               : FrameHeader{FrameKind::kJob, sizeof(JobHeader), jobs_};
}

// Nobody waits for a sum.
bool Group::Idle() const { return !plan_ && !step_began_; }

bool Group::CanCombine() const {
  return !over() && std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) {
    return worker && worker->HasFrame() && worker->Queued() < kMaxQueued;
  });
}

void Group::Combine() {
  const SharedFrame answer = plan_ ? CombineStep() : CombineJobs();
  if (over()) {
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
    ++tally_.jobs;
    tally_.elements += job_.numel;
  }
}

SharedFrame Group::CombineJobs() {
  std::memcpy(&job_, workers_[0]->payload().data(), sizeof job_);
  for (size_t rank = 1; rank < workers_.size(); ++rank) {
    JobHeader other;
    std::memcpy(&other, workers_[rank]->payload().data(), sizeof other);
    if (std::memcmp(&other, &job_, sizeof other) != 0) {
      Break("job " + std::to_string(jobs_) + " is " + Describe(job_) + " at rank 0 and " +
            Describe(other) + " at " + Rank(rank));
      return nullptr;
    }
  }
  if (const std::string invalid = Invalid(job_); !invalid.empty()) {
    Break("job " + std::to_string(jobs_) + ": " + invalid);
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
      Part(rank);
      Break("the connection of " + Rank(rank) + " broke");
    }
  }
}

void Group::Break(const std::string& reason) {
  tally_.broken += !over();
  End(reason);
}

void Group::End(const std::string& reason) {
  if (over()) {
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
    // A close with unread bytes would reset the connection, and with it what was sent.
    worker.Discard();
    Part(rank);
  }
}

}  // namespace switchml
