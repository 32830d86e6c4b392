#include "aggregator_thread.h"

#include <sys/eventfd.h>

#include <exception>
#include <string>

#include "log.h"

namespace switchml {

AggregatorThread::AggregatorThread(const Endpoint& endpoint, const Hello& reference)
    : aggregator_(endpoint, reference), end_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!end_) {
    throw LinkError("eventfd: no descriptor left");
  }
  thread_ = std::thread([this] { Run(); });
}

AggregatorThread::~AggregatorThread() {
  eventfd_write(end_.get(), 1);
  thread_.join();
}

void AggregatorThread::Run() {
  try {
    aggregator_.Run(end_);
  } catch (const std::exception& error) {
    Log(std::string("the aggregator ends: ") + error.what());
  }
}

}  // namespace switchml
