#include "protocol.h"

#include <algorithm>

namespace switchml {
namespace {

constexpr uint64_t kMagic = 0x736d6c2d73696d31;

constexpr uint32_t kWordBytes = 4;

std::string Differs(const char* key, uint64_t ours, uint64_t theirs) {
  if (ours == theirs) {
    return "";
  }
  return std::string(key) + " is " + std::to_string(theirs) + " here and " + std::to_string(ours) +
         " at rank 0";
}

std::string PrepostprocessorName(uint8_t quantizer) {
  return quantizer != 0 ? "cpu_exponent_quantizer" : "bypass";
}

}  // namespace

Hello MakeHello(const GeneralConfig& config) {
  Hello hello{};
  hello.magic = kMagic;
  hello.version = kProtocolVersion;
  hello.rank = config.rank;
  hello.num_workers = config.num_workers;
  hello.num_worker_threads = config.num_worker_threads;
  hello.max_outstanding_packets = config.max_outstanding_packets;
  hello.packet_numel = config.packet_numel;
  hello.quantizer = config.prepostprocessor != "bypass";
  hello.instant_job_completion = config.instant_job_completion;
  return hello;
}

std::string Disagreement(const Hello& ours, const Hello& theirs) {
  if (theirs.magic != ours.magic) {
    return "not a worker, or one with another byte order";
  }
  if (theirs.quantizer != ours.quantizer) {
    return "prepostprocessor is " + PrepostprocessorName(theirs.quantizer) + " here and " +
           PrepostprocessorName(ours.quantizer) + " at rank 0";
  }
  for (const std::string& text : {
           Differs("the protocol's version", ours.version, theirs.version),
           Differs("num_workers", ours.num_workers, theirs.num_workers),
           Differs("num_worker_threads", ours.num_worker_threads, theirs.num_worker_threads),
           Differs("packet_numel", ours.packet_numel, theirs.packet_numel),
           Differs("max_outstanding_packets", ours.max_outstanding_packets,
                   theirs.max_outstanding_packets),
           Differs("instant_job_completion", ours.instant_job_completion,
                   theirs.instant_job_completion),
       }) {
    if (!text.empty()) {
      return text;
    }
  }
  if (theirs.rank >= ours.num_workers) {
    return "rank " + std::to_string(theirs.rank) + " is not below num_workers " +
           std::to_string(ours.num_workers);
  }
  return "";
}

JobHeader MakeJobHeader(const Tensor& tensor, AllReduceOperation operation) {
  return {tensor.numel, static_cast<uint32_t>(tensor.data_type), static_cast<uint32_t>(operation)};
}

std::string Describe(const JobHeader& job) {
  return std::to_string(job.numel) + (job.data_type == FLOAT32 ? " FLOAT32" : " INT32");
}

JobPlan MakePlan(const JobHeader& job, const Hello& hello) {
  const bool quantized = job.data_type == FLOAT32 && hello.quantizer != 0;
  return JobPlan(job.numel, quantized, hello.num_worker_threads, hello.packet_numel);
}

FrameHeader StepHeader(const JobPlan& plan, const Step& step) {
  const Chunk chunk = plan.chunk(step.chunk);
  const bool data = step.kind == StepKind::kData;
  const uint64_t words = data ? chunk.elements.numel : chunk.packets;
  return {data ? FrameKind::kData : FrameKind::kExponents,
          static_cast<uint32_t>(words * kWordBytes), step.chunk};
}

std::chrono::milliseconds JobLimit(const GeneralConfig& config) {
  constexpr double kYear = 365.0 * 24 * 3600 * 1000;
  const double limit = config.timeout * static_cast<double>(config.timeout_threshold) *
                       static_cast<double>(config.timeout_threshold_increment);
  return std::chrono::milliseconds(static_cast<int64_t>(std::clamp(limit, 1.0, kYear)));
}

}  // namespace switchml
