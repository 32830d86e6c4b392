// Protocol of workers and aggregator.
//
// A connection carries frames, a header and a payload, in the byte order of the host. The worker
// opens with a hello and is answered by welcome or refused. Each job is a job frame, then the steps
// of its JobPlan, each answered by a frame of the same kind. A job without steps has its job frame
// answered instead. goodbye is the worker's last frame, failed the aggregator's.
#ifndef SWITCHML_SRC_PROTOCOL_H_
#define SWITCHML_SRC_PROTOCOL_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <type_traits>

#include "config.h"
#include "job.h"
#include "plan.h"

namespace switchml {

enum class FrameKind : uint32_t {
  // With a byte that text never has, so that other protocols are told apart at once.
  kHello = 0x5357ff01,
  kWelcome,
  kRefused,
  kJob,
  kExponents,
  kData,
  kGoodbye,
  kFailed,
};

struct FrameHeader {
  FrameKind kind;
  uint32_t bytes;     // of the payload, a multiple of 4
  uint64_t sequence;  // the job's number, or the number of the step's chunk
};

constexpr uint32_t kProtocolVersion = 2;
constexpr uint32_t kMaxTextBytes = 1024;  // of the reason in refused and failed

// Who a worker is, and what it must have in common with the others; the limit may differ.
struct Hello {
  uint64_t magic;
  uint64_t limit_ms;  // how long it waits for the others
  uint64_t packet_numel;
  uint32_t version;
  uint32_t max_outstanding_packets;
  uint16_t rank;
  uint16_t num_workers;
  uint16_t num_worker_threads;
  uint8_t quantizer;  // 1: cpu_exponent_quantizer, 0: bypass
  uint8_t instant_job_completion;
};

struct JobHeader {
  uint64_t numel;
  uint32_t data_type;
  uint32_t operation;
};

// They are sent as they lie in memory, and so must not have padding.
static_assert(std::has_unique_object_representations_v<FrameHeader>);
static_assert(std::has_unique_object_representations_v<Hello>);
static_assert(std::has_unique_object_representations_v<JobHeader>);

Hello MakeHello(const GeneralConfig& config);

// The value of a configuration, or of the hello made from it, that no worker can have; empty where
// there is none.
std::string Invalid(const Hello& hello);

// Reason why a worker with hello `theirs` does not fit to one with `ours`; empty where it does.
std::string Disagreement(const Hello& ours, const Hello& theirs);

JobHeader MakeJobHeader(const Tensor& tensor, AllReduceOperation operation);
// The value of a job that cannot be carried out; empty where there is none.
std::string Invalid(const JobHeader& job);
std::string Describe(const JobHeader& job);
JobPlan MakePlan(const JobHeader& job, const Hello& hello);

FrameHeader StepHeader(const JobPlan& plan, const Step& step);

// Reason why a worker cannot be one of so many, whoever the others are; empty where it can. `where`
// names the source of their number.
std::string Misfit(const Hello& hello, uint16_t num_workers, const std::string& where);

// Limit of the wait for the others: at least a millisecond, at most a year.
std::chrono::milliseconds JobLimit(const GeneralConfig& config);
std::chrono::milliseconds JobLimit(const Hello& hello);

}  // namespace switchml

#endif  // SWITCHML_SRC_PROTOCOL_H_
