#include "protocol.h"

#include <algorithm>

namespace switchml {
namespace {

constexpr uint64_t kMagic = 0x736d6c2d73696d31;

constexpr uint32_t kWordBytes = 4;
constexpr uint64_t kMaxPacketNumel = 1 << 22;
// Bytes of a larger tensor would not fit 64 bits.
constexpr uint64_t kMaxNumel = uint64_t{1} << 60;

constexpr double kYear = 365.0 * 24 * 3600 * 1000;  // milliseconds

std::string RankName(uint16_t rank) { return "rank " + std::to_string(rank); }

std::string Differs(const char* key, uint64_t ours, uint64_t theirs, const std::string& where) {
  if (ours == theirs) {
    return "";
  }
  return std::string(key) + " is " + std::to_string(theirs) + " here and " + std::to_string(ours) +
         " at " + where;
}

std::string PrepostprocessorName(uint8_t quantizer) {
  return quantizer != 0 ? "cpu_exponent_quantizer" : "bypass";
}

}  // namespace

Hello MakeHello(const GeneralConfig& config) {
  Hello hello{};
  hello.magic = kMagic;
  hello.limit_ms = static_cast<uint64_t>(JobLimit(config).count());
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

std::string InvalidReason(const Hello& hello) {
  const auto text = [](uint64_t value) { return " " + std::to_string(value); };
  if (hello.num_workers == 0) {
    return "num_workers is 0";
  }
  if (hello.rank >= hello.num_workers) {
    return RankName(hello.rank) + " is not below num_workers" + text(hello.num_workers);
  }
  if (hello.num_worker_threads == 0) {
    return "num_worker_threads is 0";
  }
  if (hello.max_outstanding_packets < hello.num_worker_threads) {
    return "max_outstanding_packets" + text(hello.max_outstanding_packets) +
           " is less than num_worker_threads" + text(hello.num_worker_threads);
  }
  return hello.packet_numel > 0 && hello.packet_numel <= kMaxPacketNumel
             ? ""
             : "packet_numel" + text(hello.packet_numel) + " is not within 1 and" +
                   text(kMaxPacketNumel);
}

std::string UnsuitedReason(const Hello& hello, uint16_t num_workers, const std::string& where) {
  if (hello.magic != kMagic) {
    return "not a worker, or one with another byte order";
  }
  for (const std::string& text :
       {Differs("the protocol's version", kProtocolVersion, hello.version, where),
        Differs("num_workers", num_workers, hello.num_workers, where)}) {
    if (!text.empty()) {
      return text;
    }
  }
  return InvalidReason(hello);
}

std::string MismatchReason(const Hello& ours, const Hello& theirs) {
  const std::string there = RankName(ours.rank);
  if (theirs.quantizer != ours.quantizer) {
    return "prepostprocessor is " + PrepostprocessorName(theirs.quantizer) + " here and " +
           PrepostprocessorName(ours.quantizer) + " at " + there;
  }
  const auto differs = [&there](const char* key, uint64_t own, uint64_t other) {
    return Differs(key, own, other, there);
  };
  for (const std::string& text : {
           differs("num_worker_threads", ours.num_worker_threads, theirs.num_worker_threads),
           differs("packet_numel", ours.packet_numel, theirs.packet_numel),
           differs("max_outstanding_packets", ours.max_outstanding_packets,
                   theirs.max_outstanding_packets),
           differs("instant_job_completion", ours.instant_job_completion,
                   theirs.instant_job_completion),
       }) {
    if (!text.empty()) {
      return text;
    }
  }
  return "";
}

JobHeader MakeJobHeader(const Tensor& tensor, AllReduceOperation operation) {
  return {tensor.numel, static_cast<uint32_t>(tensor.data_type), static_cast<uint32_t>(operation)};
}

std::string InvalidReason(const JobHeader& job) {
  if (job.data_type != FLOAT32 && job.data_type != INT32) {
    return "unknown data type";
  }
  if (job.operation != SUM) {
    return "unknown operation";
  }
  return job.numel <= kMaxNumel ? "" : "more elements than memory can hold";
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
  const double limit = config.timeout * static_cast<double>(config.timeout_threshold) *
                       static_cast<double>(config.timeout_threshold_increment);
  return std::chrono::milliseconds(static_cast<int64_t>(std::clamp(limit, 1.0, kYear)));
}

std::chrono::milliseconds JobLimit(const Hello& hello) {
  const auto limit = static_cast<double>(hello.limit_ms);
  return std::chrono::milliseconds(static_cast<int64_t>(std::clamp(limit, 1.0, kYear)));
}

}  // namespace switchml
