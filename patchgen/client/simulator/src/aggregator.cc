#include "aggregator.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "log.h"
#include "reduce.h"

namespace switchml {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kHelloLimit{5000};
constexpr milliseconds kDeliveryLimit{1000};
// More than a worker that reads its answers ever has outstanding.
constexpr size_t kMaxQueued = 4 * JobPlan::kLookahead;

std::string Rank(size_t rank) { return "rank " + std::to_string(rank); }

}  // namespace

Aggregator::Aggregator(const Endpoint& endpoint, const Hello& reference, milliseconds limit)
    : reference_(reference),
      limit_(limit),
      lobby_(Listen(endpoint), std::min(limit, kHelloLimit), reference.num_workers),
      wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      workers_(reference.num_workers) {
  if (!wakeup_) {
    throw LinkError("eventfd: no descriptor left");
  }
  thread_ = std::thread([this] { Run(); });
}

Aggregator::~Aggregator() {
  stopping_ = true;
  eventfd_write(wakeup_.get(), 1);
  thread_.join();
}

void Aggregator::Run() {
  try {
    while (!stopping_) {
      while (CanCombine()) {
        Combine();
        FlushAll();
      }
      FlushAll();
      ServeAll();
      CheckLimit();
    }
    Deliver();
  } catch (const std::exception& error) {
    Log(std::string("the aggregator ends: ") + error.what());
  }
  workers_.clear();
}

// Waits until there is something to do, and reads all that has arrived.
void Aggregator::ServeAll() {
  entries_.assign({{wakeup_.get(), POLLIN, 0}});
  for (const auto& worker : workers_) {
    // A worker whose frame waits for the others is not read, but its death must be seen.
    const short in = worker && worker->HasFrame() && failure_.empty() ? POLLRDHUP : POLLIN;
    const short out = worker && worker->Queued() > 0 ? POLLOUT : 0;
    entries_.push_back({worker ? worker->fd().get() : -1, static_cast<short>(in | out), 0});
  }
  lobby_.Watch(entries_);
  TimePoint deadline = lobby_.NextDeadline();
  if (step_began_) {
    deadline = std::min(deadline, *step_began_ + limit_);
  }
  const int timeout = deadline == TimePoint::max() ? -1 : PollTimeout(deadline);
  if (poll(entries_.data(), entries_.size(), timeout) < 0) {
    return;  // interrupted by a signal
  }
  const pollfd* entry = entries_.data();
  for (uint16_t rank = 0; rank < workers_.size(); ++rank) {
    if (((++entry)->revents & ~POLLOUT) != 0) {
      Serve(rank);
    }
  }
  for (Lobby::Guest& guest : lobby_.Serve(++entry)) {
    Admit(std::move(guest));
  }
}

// Results of finished jobs are still owed when rank 0 stops first.
void Aggregator::Deliver() {
  Fail(Rank(0) + " has stopped");
  const TimePoint deadline = Clock::now() + kDeliveryLimit;
  for (const auto& worker : workers_) {
    while (worker && worker->Flush() && worker->Queued() > 0 &&
           WaitFor(worker->fd(), POLLOUT, deadline)) {
    }
    if (worker) {
      // A close with unread bytes would reset the connection, and with it what was sent.
      worker->Discard();
    }
  }
}

void Aggregator::Admit(Lobby::Guest guest) {
  const std::string refusal = Refusal(guest.hello);
  if (refusal.empty()) {
    guest.connection->Queue(TextFrame(FrameKind::kWelcome, ""));
    workers_[guest.hello.rank] = std::move(guest.connection);
  } else {
    guest.connection->Queue(TextFrame(FrameKind::kRefused, refusal));
    guest.connection->Flush();
  }
}

std::string Aggregator::Refusal(const Hello& hello) const {
  const std::string disagreement = Disagreement(reference_, hello);
  if (!disagreement.empty()) {
    return disagreement;
  }
  if (!failure_.empty()) {
    return "the job is over: " + failure_;
  }
  return workers_[hello.rank] ? Rank(hello.rank) + " is taken by another process" : "";
}

void Aggregator::Serve(uint16_t rank) {
  std::unique_ptr<Connection>& worker = workers_[rank];
  if (!failure_.empty()) {
    if (!worker->Discard()) {
      worker.reset();
    }
    return;
  }
  using Event = Connection::Event;
  Event event = worker->HasFrame() ? Event::kClosed : worker->Read();
  if (event == Event::kHeader) {
    const FrameHeader& header = worker->header();
    if (header.kind == FrameKind::kGoodbye) {
      worker.reset();
      Fail(Rank(rank) + " has stopped");
      return;
    }
    const FrameHeader expected = Expected();
    if (std::memcmp(&header, &expected, sizeof expected) != 0) {
      Fail(Rank(rank) + " sent a malformed message");
      return;
    }
    event = worker->Read();
  }
  if (event == Event::kClosed) {
    worker.reset();
    Fail("the connection of " + Rank(rank) + " broke");
  } else if (!step_began_ && worker->InFrame()) {
    step_began_ = Clock::now();
  }
}

void Aggregator::CheckLimit() {
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

// What every worker has to send next, where it does not say goodbye.
FrameHeader Aggregator::Expected() const {
  return plan_ ? StepHeader(*plan_, plan_->step(step_))
               : FrameHeader{FrameKind::kJob, sizeof(JobHeader), jobs_};
}

bool Aggregator::CanCombine() const {
  return failure_.empty() && std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) {
           return worker && worker->HasFrame() && worker->Queued() < kMaxQueued;
         });
}

void Aggregator::Combine() {
  const SharedFrame answer = plan_ ? CombineStep() : CombineJobs();
  if (!failure_.empty()) {
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
  }
}

SharedFrame Aggregator::CombineJobs() {
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
  plan_ = MakePlan(job_, reference_);
  step_ = 0;
  if (plan_->steps() > 0) {
    return nullptr;
  }
  auto answer = std::make_shared<Frame>();
  answer->header = {FrameKind::kJob, 0, jobs_};
  return answer;
}

SharedFrame Aggregator::CombineStep() {
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

void Aggregator::FlushAll() {
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    if (workers_[rank] && !workers_[rank]->Flush()) {
      workers_[rank].reset();
      Fail("the connection of " + Rank(rank) + " broke");
    }
  }
}

void Aggregator::Fail(const std::string& reason) {
  if (!failure_.empty()) {
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

}  // namespace switchml
