// A worker's end of its connection to the aggregator.
#ifndef SWITCHML_SRC_WORKER_H_
#define SWITCHML_SRC_WORKER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "job.h"
#include "plan.h"
#include "protocol.h"
#include "socket.h"
#include "stats.h"

namespace switchml {

class Worker {
 public:
  // Says hello, and blocks until it is answered. Throws LinkError: nobody there within `limit`, or
  // refused. `stats` must outlive the worker. `finished` is called for each job, in their order.
  Worker(const Endpoint& endpoint, const Hello& hello, std::chrono::milliseconds limit,
         Stats& stats, std::function<void()> finished);

  // Sends the next job, while the one before may still be answered. Throws LinkError, as Finish()
  // does, after which there can be no other job.
  void Begin(const Tensor& tensor, AllReduceOperation operation);
  // Returns when the oldest job that has begun is finished.
  void Finish();

  void SayGoodbye();

  // From any thread: whoever is in a job gets a LinkError. Sent bytes still arrive.
  void Disconnect();

 private:
  struct Begun {
    Tensor tensor;
    JobPlan plan;
    uint64_t number;
    uint64_t answers;
  };

  void ReceiveNext();
  void SendStep(const JobPlan& plan, uint64_t index, const Tensor& tensor);
  void ReceiveStep(const JobPlan& plan, uint64_t index, const Tensor& tensor);

  void Append(const FrameHeader& header, const void* payload);
  void Send(Bytes tail);
  void Flush() { Send({nullptr, 0}); }
  FrameHeader ReceiveHeader();
  void ReceiveAnswer(const FrameHeader& expected, void* payload, uint64_t packets);
  void Receive(void* data, size_t bytes);
  bool Readable() const;
  std::string ReceiveText(const FrameHeader& header);
  TimePoint Deadline() const;

  const Hello hello_;
  std::chrono::milliseconds limit_;  // how long to wait for any progress
  Stats& stats_;
  const std::function<void()> finished_;
  Fd socket_;
  uint64_t jobs_ = 0;
  std::deque<Begun> begun_;   // and not finished
  std::vector<char> unsent_;  // small frames, to leave with the next large one
  // The exponents that all workers agreed on, by chunk modulo the lookahead: a chunk's data is
  // back before the exponents of the chunk that takes its place.
  std::vector<int32_t> exponents_[JobPlan::kLookahead];
  std::vector<int32_t> fixed_;  // the data of one chunk
};

}  // namespace switchml

#endif  // SWITCHML_SRC_WORKER_H_
