#include "context.h"

#include <unistd.h>

#include <exception>
#include <stdexcept>
#include <utility>

#include "log.h"
#include "protocol.h"
#include "session.h"

namespace switchml {
namespace {

std::string InvalidReason(const Tensor& tensor, AllReduceOperation operation) {
  const std::string invalid = InvalidReason(MakeJobHeader(tensor, operation));
  const bool null = tensor.in_ptr == nullptr || tensor.out_ptr == nullptr;
  return invalid.empty() && tensor.numel > 0 && null ? "null pointer" : invalid;
}

}  // namespace

Context& Context::GetInstance() {
  static Context instance;
  return instance;
}

Context::Context() : state_(CREATED), starter_(0) {}

Context::~Context() {
  if (InForkedChild()) {
    // The threads and locks are the parent's: destroying them here would hang or abort. The static
    // keeps the session reachable, so it is not reported as a leak.
    static const Session* const inherited = session_.release();
    static_cast<void>(inherited);
  } else if (state_ == RUNNING) {
    Log("the context is stopped by its destructor");
    Stop();
  }
}

bool Context::Start(Config* config) {
  ContextState created = CREATED;
  ContextState stopped = STOPPED;
  if (InForkedChild() || (!state_.compare_exchange_strong(created, STARTING) &&
                          !state_.compare_exchange_strong(stopped, STARTING))) {
    Log("only a context that does not run can be started, and not in a forked child");
    return false;
  }
  starter_ = getpid();
  session_.reset();
  bool joined = false;
  try {
    joined = Join(config);
  } catch (...) {
    state_ = STOPPED;
    throw;
  }
  state_ = joined ? RUNNING : STOPPED;
  return joined;
}

bool Context::Join(Config* config) {
  if (config != nullptr) {
    config_ = *config;
  } else if (!config_.LoadFromFile()) {
    return false;
  }
  try {
    config_.Validate();
    const bool external = config_.backend_.simulator.external_aggregator;
    session_ = std::make_unique<Session>(config_.general_, external, stats_);
    return true;
  } catch (const std::exception& error) {
    Log("rank " + std::to_string(config_.general_.rank) + " cannot start: " + error.what());
    return false;
  }
}

void Context::Stop() {
  ContextState running = RUNNING;
  if (InForkedChild() || !state_.compare_exchange_strong(running, STOPPING)) {
    Log("nothing to stop: the context does not run");
    return;
  }
  session_->Stop();
  state_ = STOPPED;
}

std::shared_ptr<Job> Context::AllReduceAsync(void* in_ptr, void* out_ptr, uint64_t numel,
                                             DataType data_type,
                                             AllReduceOperation all_reduce_operation) {
  const Tensor tensor{in_ptr, out_ptr, numel, data_type};
  ExtraJobInfo extra;
  extra.allreduce_operation = all_reduce_operation;
  auto job = std::make_shared<Job>(tensor, ALLREDUCE, extra);
  const std::string invalid = GetContextState() != RUNNING
                                  ? "the context does not run"
                                  : InvalidReason(tensor, extra.allreduce_operation);
  if (!invalid.empty()) {
    Log("job refused: " + invalid);
    job->SetJobStatus(FAILED);
    return job;
  }
  stats_.IncJobsSubmittedNum();
  stats_.AppendJobSubmittedNumel(numel);
  session_->Submit(job);
  return job;
}

std::shared_ptr<Job> Context::AllReduce(void* in_ptr, void* out_ptr, uint64_t numel,
                                        DataType data_type,
                                        AllReduceOperation all_reduce_operation) {
  auto job = AllReduceAsync(in_ptr, out_ptr, numel, data_type, all_reduce_operation);
  job->WaitToComplete();
  return job;
}

void Context::WaitForAllJobs() {
  if (GetContextState() == RUNNING) {
    session_->WaitForAll();
  }
}

Context::ContextState Context::GetContextState() {
  return InForkedChild() ? STOPPED : state_.load();
}

const Config& Context::GetConfig() { return config_; }

Stats& Context::GetStats() { return stats_; }

bool Context::InForkedChild() const { return starter_ != 0 && starter_ != getpid(); }

}  // namespace switchml
