#include "worker.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "quantize.h"

namespace switchml {

// Milliseconds that a start may take, as the program says. It links with this name.
std::atomic<long long> start_limit{0};

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr WorkerTid kThread = 0;

// The aggregator waits for `limit`, and then says for whom. Only where it says nothing either does
// the worker give up by itself.
milliseconds Patience(milliseconds limit) {
  return limit + std::clamp(limit / 10, milliseconds(100), milliseconds(1000));
}

// As in the fixed library.
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
    throw LinkError("what listens on " + endpoint.Text() + " is no aggregator");
  }
  limit_ = Patience(limit);
}

void Worker::Begin(const Tensor& tensor, AllReduceOperation operation) {
  while (begun_.size() > 1) {
    ReceiveNext();
  }
  const JobHeader job = MakeJobHeader(tensor, operation);
  begun_.push_back({tensor, MakePlan(job, hello_), jobs_++, 0});
  const Begun& own = begun_.back();
  Append({FrameKind::kJob, sizeof job, own.number}, &job);
  for (uint64_t index = 0; index < own.plan.steps(); ++index) {
    // Answers flow back while steps still go out: who lets them lie makes the aggregator wait.
    while (own.answers < own.plan.AnswersNeeded(index) ||
           ((begun_.size() > 1 || own.answers < index) && Readable())) {
      ReceiveNext();
    }
    SendStep(own.plan, index, tensor);
  }
}

void Worker::Finish() {
  for (const size_t before = begun_.size(); begun_.size() == before;) {
    ReceiveNext();
  }
}

void Worker::ReceiveNext() {
  Begun& oldest = begun_.front();
  if (oldest.plan.steps() == 0) {
    Flush();
    ReceiveAnswer({FrameKind::kJob, 0, oldest.number}, nullptr, 0);
  } else {
    ReceiveStep(oldest.plan, oldest.answers, oldest.tensor);
  }
  if (++oldest.answers >= oldest.plan.steps()) {
    begun_.pop_front();
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
  fixed_.resize(std::max<size_t>(fixed_.size(), chunk.elements.numel));
  for (uint64_t i = 0; i < chunk.packets; ++i) {
    const Range packet = plan.layout().packet(chunk.first_packet + i);
    const float* const values = in + packet.offset;
    if (step.kind == StepKind::kExponents) {
      fixed_[i] = PacketExponent(values, packet.numel);
    } else {
      const auto& exponents = exponents_[step.chunk % JobPlan::kLookahead];
      const float factor = ScalingFactor(static_cast<int16_t>(exponents[i]), hello_.num_workers);
      QuantizePacket(values, packet.numel, factor, hello_.num_workers,
                     &fixed_[packet.offset - chunk.elements.offset]);
    }
  }
  if (step.kind == StepKind::kExponents) {
    Append(header, fixed_.data());
  } else {
    Append(header, nullptr);
    Send({fixed_.data(), header.bytes});
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
  fixed_.resize(std::max<size_t>(fixed_.size(), chunk.elements.numel));
  ReceiveAnswer(expected, fixed_.data(), chunk.packets);
  float* const values = static_cast<float*>(tensor.out_ptr) + chunk.elements.offset;
  const auto& exponents = exponents_[step.chunk % JobPlan::kLookahead];
  for (uint64_t i = 0; i < chunk.packets; ++i) {
    const Range packet = plan.layout().packet(chunk.first_packet + i);
    const uint64_t begin = packet.offset - chunk.elements.offset;
    const auto exponent = static_cast<int16_t>(exponents[i]);
    const float factor = ScalingFactor(exponent, hello_.num_workers);
    DequantizePacket(&fixed_[begin], packet.numel, factor, exponent, values + begin);
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

// Sends what has been appended, and `tail`. It may block while the others are behind, and cannot
// block for good: the aggregator holds answers that this worker has not read yet.
void Worker::Send(Bytes tail) {
  const size_t total = unsent_.size() + tail.size;
  TimePoint deadline = Deadline();
  for (size_t sent = 0; sent < total;) {
    const TransferResult result = SendParts(socket_, {unsent_.data(), unsent_.size()}, tail, sent);
    sent += result.bytes;
    if (result.status == Transfer::kDone) {
      deadline = Deadline();
    } else if (result.status == Transfer::kClosed) {
      break;  // the aggregator's reason is there to be read
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
