#include "worker.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "quantize.h"

namespace switchml {

// Limit of a start in milliseconds. The program sets it: it links with this name.
std::atomic<long long> start_limit{0};

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr WorkerTid kThread = 0;

// Longer than `limit`, after which the aggregator reports the late workers. The worker fails by
// itself only if that report does not come.
milliseconds AnswerTimeout(milliseconds limit) {
  return limit + std::clamp(limit / 10, milliseconds(100), milliseconds(1000));
}

// The limit of a start, as in the fixed client library.
milliseconds StartLimit(milliseconds limit) {
  const milliseconds set(start_limit);
  return set.count() > 0 ? std::min(set, limit) : limit;
}

}  // namespace

Worker::Worker(const Endpoint& endpoint, const Hello& hello, milliseconds limit, Stats& stats,
               std::function<void()> finished)
    : hello_(hello), limit_(limit), stats_(stats), finished_(std::move(finished)) {
  const TimePoint deadline = Clock::now() + StartLimit(limit);
  socket_ = Connect(endpoint, deadline);
  limit_ = std::chrono::ceil<milliseconds>(deadline - Clock::now());
  Append({FrameKind::kHello, sizeof hello_, 0}, &hello_);
  Flush();
  const FrameHeader answer = ReceiveHeader();
  if (answer.kind == FrameKind::kRefused) {
    throw LinkError("refused by " + endpoint.Text() + ": " + ReceiveText(answer));
  }
  if (answer.kind != FrameKind::kWelcome || answer.bytes != 0) {
    throw LinkError("what listens on " + endpoint.Text() + " is not an aggregator");
  }
  limit_ = AnswerTimeout(limit);
}

void Worker::Begin(const Tensor& tensor, AllReduceOperation operation) {
  while (pending_.size() > 1) {
    ReceiveNext();
  }
  const JobHeader job = MakeJobHeader(tensor, operation);
  pending_.push_back({tensor, MakePlan(job, hello_), jobs_++, 0});
  const PendingJob& own = pending_.back();
  Append({FrameKind::kJob, sizeof job, own.number}, &job);
  for (uint64_t index = 0; index < own.plan.steps(); ++index) {
    // Answers arrive while steps are still being sent. Reading them keeps the aggregator going.
    while (own.answers < own.plan.AnswersNeeded(index) ||
           ((pending_.size() > 1 || own.answers < index) && Readable())) {
      ReceiveNext();
    }
    SendStep(own.plan, index, tensor);
  }
}

void Worker::Finish() {
  for (const size_t before = pending_.size(); pending_.size() == before;) {
    ReceiveNext();
  }
}

void Worker::ReceiveNext() {
  PendingJob& oldest = pending_.front();
  if (oldest.plan.steps() == 0) {
    Flush();
    ReceiveAnswer({FrameKind::kJob, 0, oldest.number}, nullptr, 0);
  } else {
    ReceiveStep(oldest.plan, oldest.answers, oldest.tensor);
  }
  if (++oldest.answers >= oldest.plan.steps()) {
    pending_.pop_front();
    finished_();
  }
}

void Worker::SendStep(const JobPlan& plan, uint64_t index, const Tensor& tensor) {
  const Step step = plan.step(index);
  const Chunk chunk = plan.chunk(step.chunk);
  const FrameHeader header = StepHeader(plan, step);
  if (!plan.quantized()) {
    const char* const data = static_cast<const char*>(tensor.in_ptr);
    Append(header, nullptr);
    Send({data + chunk.elements.offset * sizeof(int32_t), header.bytes});
    stats_.AddTotalPktsSent(kThread, chunk.packets);
    return;
  }
  const float* const in = static_cast<const float*>(tensor.in_ptr);
  fixed_point_.resize(std::max<size_t>(fixed_point_.size(), chunk.elements.numel));
  for (uint64_t i = 0; i < chunk.packets; ++i) {
    const Range packet = plan.layout().packet(chunk.first_packet + i);
    const float* const values = in + packet.offset;
    if (step.kind == StepKind::kExponents) {
      fixed_point_[i] = PacketExponent(values, packet.numel);
    } else {
      const auto& exponents = exponents_[step.chunk % JobPlan::kLookahead];
      const float factor = ScalingFactor(static_cast<int16_t>(exponents[i]), hello_.num_workers);
      QuantizePacket(values, packet.numel, factor, hello_.num_workers,
                     &fixed_point_[packet.offset - chunk.elements.offset]);
    }
  }
  if (step.kind == StepKind::kExponents) {
    Append(header, fixed_point_.data());
  } else {
    Append(header, nullptr);
    Send({fixed_point_.data(), header.bytes});
  }
  stats_.AddTotalPktsSent(kThread, chunk.packets);
}

void Worker::ReceiveStep(const JobPlan& plan, uint64_t index, const Tensor& tensor) {
  const Step step = plan.step(index);
  const Chunk chunk = plan.chunk(step.chunk);
  const FrameHeader expected = StepHeader(plan, step);
  Flush();
  if (step.kind == StepKind::kExponents) {
    auto& exponents = exponents_[step.chunk % JobPlan::kLookahead];
    exponents.resize(chunk.packets);
    ReceiveAnswer(expected, exponents.data(), chunk.packets);
    return;
  }
  char* const out = static_cast<char*>(tensor.out_ptr) + chunk.elements.offset * sizeof(int32_t);
  if (!plan.quantized()) {
    ReceiveAnswer(expected, out, chunk.packets);
    return;
  }
  fixed_point_.resize(std::max<size_t>(fixed_point_.size(), chunk.elements.numel));
  ReceiveAnswer(expected, fixed_point_.data(), chunk.packets);
  float* const values = static_cast<float*>(tensor.out_ptr) + chunk.elements.offset;
  const auto& exponents = exponents_[step.chunk % JobPlan::kLookahead];
  for (uint64_t i = 0; i < chunk.packets; ++i) {
    const Range packet = plan.layout().packet(chunk.first_packet + i);
    const uint64_t begin = packet.offset - chunk.elements.offset;
    const auto exponent = static_cast<int16_t>(exponents[i]);
    const float factor = ScalingFactor(exponent, hello_.num_workers);
    DequantizePacket(&fixed_point_[begin], packet.numel, factor, exponent, values + begin);
  }
}

void Worker::SayGoodbye() {
  Append({FrameKind::kGoodbye, 0, 0}, nullptr);
  Flush();
}

void Worker::Disconnect() { shutdown(socket_.get(), SHUT_RDWR); }

void Worker::Append(const FrameHeader& header, const void* payload) {
  const auto add = [this](const void* data, size_t bytes) {
    const char* const begin = static_cast<const char*>(data);
    unsent_.insert(unsent_.end(), begin, begin + bytes);
  };
  add(&header, sizeof header);
  if (payload != nullptr) {
    add(payload, header.bytes);
  }
}

// Sends the appended frames, and `tail`. It blocks while the other workers are behind, but not for
// ever: the aggregator keeps the answers that this worker has not read yet.
void Worker::Send(Bytes tail) {
  const size_t total = unsent_.size() + tail.size;
  TimePoint deadline = Deadline();
  for (size_t sent = 0; sent < total;) {
    const TransferResult result = SendParts(socket_, {unsent_.data(), unsent_.size()}, tail, sent);
    sent += result.bytes;
    if (result.status == Transfer::kDone) {
      deadline = Deadline();
    } else if (result.status == Transfer::kClosed) {
      break;  // the reason can be read from the socket
    } else if (!WaitFor(socket_, POLLOUT, deadline)) {
      stats_.AddTimeouts(kThread, 1);
      throw LinkError("the aggregator takes nothing for " + std::to_string(limit_.count()) + " ms");
    }
  }
  unsent_.clear();
}

FrameHeader Worker::ReceiveHeader() {
  FrameHeader header;
  Receive(&header, sizeof header);
  return header;
}

void Worker::ReceiveAnswer(const FrameHeader& expected, void* payload, uint64_t packets) {
  const FrameHeader header = ReceiveHeader();
  if (header.kind == FrameKind::kFailed) {
    throw LinkError(ReceiveText(header));
  }
  if (std::memcmp(&header, &expected, sizeof header) != 0) {
    stats_.AddWrongPktsReceived(kThread, 1);
    throw LinkError("the aggregator sent a malformed message");
  }
  Receive(payload, header.bytes);
  stats_.AddCorrectPktsReceived(kThread, packets);
}

void Worker::Receive(void* data, size_t bytes) {
  TimePoint deadline = Deadline();
  for (size_t received = 0; received < bytes;) {
    const TransferResult result =
        switchml::Receive(socket_, static_cast<char*>(data) + received, bytes - received);
    received += result.bytes;
    if (result.status == Transfer::kDone) {
      deadline = Deadline();
    } else if (result.status == Transfer::kClosed) {
      throw LinkError("the connection to the aggregator broke");
    } else if (!WaitFor(socket_, POLLIN, deadline)) {
      stats_.AddTimeouts(kThread, 1);
      throw LinkError("the aggregator says nothing for " + std::to_string(limit_.count()) + " ms");
    }
  }
}

bool Worker::Readable() const { return WaitFor(socket_, POLLIN, Clock::now()); }

std::string Worker::ReceiveText(const FrameHeader& header) {
  std::string text(std::min(header.bytes, kMaxTextBytes), '\0');
  Receive(text.data(), text.size());
  return text.substr(0, text.find('\0'));  // without the padding
}

TimePoint Worker::Deadline() const { return Clock::now() + limit_; }

}  // namespace switchml
