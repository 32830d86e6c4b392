// The worker's end of its connection to the aggregator.
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

// The jobs of one worker:
//
//   1. The constructor sends the hello and waits for the welcome.
//   2. Begin() announces a job and sends its steps. It reads answers meanwhile, also those of the
//      job before.
//   3. Finish() reads the last answers of the oldest job.
//   4. After the last answer of a job its sum is in the tensor, and `finished` is called.
//
// The session's constructor makes it. Only the session's thread calls the other members, except
// Disconnect(), which any thread may call. There is no mutex.
class Worker {
 public:
  // Sends the hello, and waits for the answer. Throws LinkError if the aggregator does not answer
  // within `limit`, or refuses the worker. `stats` must outlive the worker. `finished` is called
  // for each job, in the order of the jobs.
  Worker(const Endpoint& endpoint, const Hello& hello, std::chrono::milliseconds limit,
         Stats& stats, std::function<void()> finished);

  // Sends the next job. The job before may still be unfinished. Throws LinkError, as Finish(); no
  // other job can follow then.
  void Begin(const Tensor& tensor, AllReduceOperation operation);
  // Waits until the oldest job is finished.
  void Finish();

  void SayGoodbye();

  // Makes the current and later calls throw LinkError. Bytes that were sent still arrive.
  void Disconnect();

 private:
  // A job that has begun and is not finished.
  struct PendingJob {
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
  std::chrono::milliseconds limit_;  // of a wait for any progress
  Stats& stats_;
  const std::function<void()> finished_;
  Fd socket_;
  uint64_t jobs_ = 0;
  std::deque<PendingJob> pending_;
  std::vector<char> unsent_;  // small frames, which are sent with the next large one
  // The largest exponents of all workers, by chunk modulo the lookahead: a chunk's data is answered
  // before the exponents of the chunk with the same index are.
  std::vector<int32_t> exponents_[JobPlan::kLookahead];
  std::vector<int32_t> fixed_point_;  // the data of one chunk
};

}  // namespace switchml

#endif  // SWITCHML_SRC_WORKER_H_
