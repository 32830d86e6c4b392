// The aggregator's end of a connection to a worker.
#ifndef SWITCHML_SRC_CONNECTION_H_
#define SWITCHML_SRC_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "protocol.h"
#include "socket.h"

namespace switchml {

// A frame to send, which may be in the queues of several connections.
struct Frame {
  FrameHeader header;
  std::vector<uint32_t> payload;
};
using SharedFrame = std::shared_ptr<const Frame>;

// Frame with a text, as of a refusal.
SharedFrame TextFrame(FrameKind kind, const std::string& text);

// Reads frames, one at a time, and sends queued frames, all without blocking. Only the aggregator's
// thread calls it. There is no mutex.
class Connection {
 public:
  enum class Event { kBlocked, kHeader, kFrame, kClosed };

  explicit Connection(Fd fd);

  const Fd& fd() const { return fd_; }
  const FrameHeader& header() const { return header_; }
  const std::vector<uint32_t>& payload() const { return payload_; }
  TimePoint accepted_at() const { return accepted_at_; }
  uint64_t received() const { return all_received_; }  // bytes so far
  uint64_t sent() const { return all_sent_; }

  // Reads more of the current frame. After kHeader the owner checks header(), and reads on or drops
  // the connection: so no memory is allocated for a length that was not checked. After kFrame
  // nothing is read until Release().
  Event Read();
  bool HasFrame() const { return has_frame_; }
  bool InFrame() const { return received_ > 0; }
  void Release();

  // Reads and drops bytes that have arrived, 16 MiB at most. False once the peer has closed.
  bool Discard();

  void Queue(SharedFrame frame) { queue_.push_back(std::move(frame)); }
  size_t Queued() const { return queue_.size(); }
  // Sends as much of the queue as the socket takes. False if the peer has closed.
  bool Flush();

 private:
  Fd fd_;
  TimePoint accepted_at_;
  FrameHeader header_{};
  std::vector<uint32_t> payload_;
  size_t received_ = 0;  // bytes of the current frame, header included
  bool has_frame_ = false;
  std::deque<SharedFrame> queue_;
  size_t sent_ = 0;  // bytes of the front of queue_
  uint64_t all_received_ = 0;
  uint64_t all_sent_ = 0;
};

}  // namespace switchml

#endif  // SWITCHML_SRC_CONNECTION_H_
