// The protocol between workers and aggregator.
//
// A connection carries frames, each of a header and a payload, in the byte order of the host.
//
//   1. The worker sends hello. The aggregator answers welcome or refused.
//   2. The worker announces a job with a job frame.
//   3. The worker sends a frame for each step of the job's JobPlan. The aggregator answers each
//      with a frame of the same kind, and a job without steps with a job frame.
//   4. The worker's last frame is goodbye. The aggregator's last frame after a fault is failed.
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
  // Has a byte that text never has, so that text protocols are recognized at once.
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
constexpr uint32_t kMaxTextBytes = 1024;  // of the reason in a refused or failed frame

// Identity of a worker, and the settings that all workers must share, except the limit.
struct Hello {
  uint64_t magic;
  uint64_t limit_ms;  // how long it waits for the other workers
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

// These are sent as bytes, so they must not have padding.
static_assert(std::has_unique_object_representations_v<FrameHeader>);
static_assert(std::has_unique_object_representations_v<Hello>);
static_assert(std::has_unique_object_representations_v<JobHeader>);

Hello MakeHello(const GeneralConfig& config);

// Reason why no worker can have this hello, or the configuration that it is made from; empty if one
// can.
std::string InvalidReason(const Hello& hello);

// Reason why workers with these hellos cannot sum together; empty if they can.
std::string MismatchReason(const Hello& ours, const Hello& theirs);

JobHeader MakeJobHeader(const Tensor& tensor, AllReduceOperation operation);
// Reason why a job cannot be done; empty if it can.
std::string InvalidReason(const JobHeader& job);
std::string Describe(const JobHeader& job);
JobPlan MakePlan(const JobHeader& job, const Hello& hello);

FrameHeader StepHeader(const JobPlan& plan, const Step& step);

// Reason why a worker cannot be one of `num_workers`, whatever the other workers have; empty if
// it can. `where` names the source of `num_workers` in the reason.
std::string UnsuitedReason(const Hello& hello, uint16_t num_workers, const std::string& where);

// Limit of the wait for the other workers: at least a millisecond, at most a year.
std::chrono::milliseconds JobLimit(const GeneralConfig& config);
std::chrono::milliseconds JobLimit(const Hello& hello);

}  // namespace switchml

#endif  // SWITCHML_SRC_PROTOCOL_H_
