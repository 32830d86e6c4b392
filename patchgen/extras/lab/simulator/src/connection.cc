#include "connection.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace switchml {
namespace {

constexpr int kMostDiscards = 256;  // 16 MiB, more than a worker ever has under way

}  // namespace

SharedFrame TextFrame(FrameKind kind, const std::string& text) {
  auto frame = std::make_shared<Frame>();
  const size_t bytes = std::min<size_t>(text.size(), kMaxTextBytes);
  frame->payload.resize((bytes + sizeof(uint32_t) - 1) / sizeof(uint32_t));
  if (bytes > 0) {
    std::memcpy(frame->payload.data(), text.data(), bytes);
  }
  const auto length = static_cast<uint32_t>(frame->payload.size() * sizeof(uint32_t));
  frame->header = {kind, length, 0};
  return frame;
}

Connection::Connection(Fd fd)
    : fd_(std::move(fd)), accepted_at_(std::chrono::steady_clock::now()) {}

Connection::Event Connection::Read() {
  constexpr size_t kHeader = sizeof(FrameHeader);
  const bool in_header = received_ < kHeader;
  if (!in_header) {
    payload_.resize(header_.bytes / sizeof(uint32_t));
  }
  char* const base =
      in_header ? reinterpret_cast<char*>(&header_) : reinterpret_cast<char*>(payload_.data());
  const size_t begin = in_header ? received_ : received_ - kHeader;
  const size_t end = in_header ? kHeader : header_.bytes;
  if (begin < end) {
    const TransferResult result = Receive(fd_, base + begin, end - begin);
    if (result.status != Transfer::kDone) {
      return result.status == Transfer::kBlocked ? Event::kBlocked : Event::kClosed;
    }
    received_ += result.bytes;
    all_received_ += result.bytes;
    if (begin + result.bytes < end) {
      return Event::kBlocked;
    }
    if (in_header) {
      return Event::kHeader;
    }
  }
  has_frame_ = true;
  return Event::kFrame;
}

void Connection::Release() {
  received_ = 0;
  has_frame_ = false;
}

bool Connection::Discard() {
  std::array<char, 65536> waste;
  TransferResult result{Transfer::kDone, 0};
  // Bounded: a peer that never stops sending must not delay the other workers.
  for (int reads = 0; reads < kMostDiscards && result.status == Transfer::kDone; ++reads) {
    result = Receive(fd_, waste.data(), waste.size());
  }
  return result.status != Transfer::kClosed;
}

bool Connection::Flush() {
  constexpr size_t kHeader = sizeof(FrameHeader);
  while (!queue_.empty()) {
    const Frame& frame = *queue_.front();
    const size_t total = kHeader + frame.header.bytes;
    while (sent_ < total) {
      const TransferResult result = SendParts(fd_, {&frame.header, kHeader},
                                              {frame.payload.data(), frame.header.bytes}, sent_);
      if (result.status != Transfer::kDone) {
        return result.status == Transfer::kBlocked;
      }
      sent_ += result.bytes;
      all_sent_ += result.bytes;
    }
    queue_.pop_front();
    sent_ = 0;
  }
  return true;
}

}  // namespace switchml
