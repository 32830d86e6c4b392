// A worker's end of its connection to the aggregator.
#ifndef SWITCHML_SRC_WORKER_H_
#define SWITCHML_SRC_WORKER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
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
  // refused. `stats` must outlive the worker.
  Worker(const Endpoint& endpoint, const Hello& hello, std::chrono::milliseconds limit,
         Stats& stats);

  // Carries out the next job. Throws LinkError, after which there can be no other job.
  void AllReduce(const Tensor& tensor, AllReduceOperation operation);

  void SayGoodbye();

  // From any thread: whoever is in AllReduce() gets a LinkError. Sent bytes still arrive.
  void Disconnect();

 private:
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
  Fd socket_;
  uint64_t jobs_ = 0;
  std::vector<char> unsent_;  // small frames, to leave with the next large one
  // The exponents that all workers agreed on, by chunk modulo the lookahead: a chunk's data is
  // back before the exponents of the chunk that takes its place.
  std::vector<int32_t> exponents_[JobPlan::kLookahead];
  std::vector<int32_t> fixed_;  // the data of one chunk
};

}  // namespace switchml

#endif  // SWITCHML_SRC_WORKER_H_
