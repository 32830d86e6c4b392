// The aggregator in a thread of rank 0's process.
#ifndef SWITCHML_SRC_AGGREGATOR_THREAD_H_
#define SWITCHML_SRC_AGGREGATOR_THREAD_H_

#include <thread>

#include "aggregator.h"
#include "protocol.h"
#include "socket.h"

namespace switchml {

// Runs an aggregator until it is destroyed. One thread makes and destroys it; `aggregator_` belongs
// to `thread_`, and `end_` is how the destructor tells the thread to end.
class AggregatorThread {
 public:
  // Listens, and starts the thread. Throws LinkError.
  AggregatorThread(const Endpoint& endpoint, const Hello& reference);
  // Returns when the thread has ended: it delivers queued answers for a second at most.
  ~AggregatorThread();

  AggregatorThread(const AggregatorThread&) = delete;
  AggregatorThread& operator=(const AggregatorThread&) = delete;

 private:
  void Run();

  Aggregator aggregator_;
  Fd end_;
  std::thread thread_;
};

}  // namespace switchml

#endif  // SWITCHML_SRC_AGGREGATOR_THREAD_H_
