#include "join/config.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/text.hpp"
#include "environment.hpp"
#include "host/cores.hpp"
#include "join/agreement.hpp"

namespace switchml_delegate {
namespace {

// Room in SwitchML's own P4 program.
constexpr std::uint16_t kSwitchWorkers = 32;
constexpr std::uint64_t kSwitchSlots = 8192;
constexpr std::uint64_t kSwitchQueuePairs = 512;

/// True if int32 of the workers can have a sum that is no int32. The client library rounds its
/// factor INT32_MAX / (num_workers * 2^e) to float, a value times it to float and that to an
/// integer, and clamps nothing. The largest value below 2^e on every worker is the worst case, for
/// any e.
bool mayOverflow(std::uint16_t workers) {
  const auto factor = static_cast<float>(static_cast<double>(INT32_MAX) / workers);
  const float worst = std::nextafter(1.0F, 0.0F) * factor;
  return workers * static_cast<std::int64_t>(std::round(worst)) > INT32_MAX;
}

/// The client library makes max_outstanding_packets a multiple of this, the nearest, when it
/// starts.
std::uint64_t rounded(std::uint64_t packets, std::uint64_t step) {
  const auto least = packets / step;
  return std::max<std::uint64_t>(least + (packets % step > step - packets % step ? 1 : 0), 1) *
         step;
}

/// Reason why SwitchML's own P4 program has no room for the configuration; empty if it has. The
/// program would write beside its registers, or refuse the worker in a way that the client library
/// does not look at.
std::string beyondSwitch(const switchml::Config& config) {
  const auto& general = config.general_;
  if (!usesSwitch(general)) {
    return "";
  }
  if (general.num_workers > kSwitchWorkers) {
    return text("num_workers = ", general.num_workers, ", but the switch program has room for ",
                kSwitchWorkers);
  }
  const auto messages = outstanding(config);
  auto slots = messages * (messageNumel(config) / general.packet_numel);
  if (general.backend == "dpdk") {
    // A thread begins at twice the slots of those before it.
    slots = (2 * std::uint64_t{general.num_worker_threads} - 1) *
            (messages / general.num_worker_threads);
  } else if (messages > kSwitchQueuePairs) {
    return text("max_outstanding_packets = ", general.max_outstanding_packets, " needs ", messages,
                " queue pairs, but the switch program has ", kSwitchQueuePairs, " for a worker");
  }
  return slots <= kSwitchSlots
             ? ""
             : text("max_outstanding_packets = ", general.max_outstanding_packets,
                    " with num_worker_threads = ", general.num_worker_threads, " needs ", slots,
                    " slots, but the switch program has ", kSwitchSlots);
}

/// Least timeout of RDMA. A message that is sent again may have two answers, and the second comes
/// when the next job has begun. If nothing is lost, messages are sent again only when a rank is
/// later than this, so it is longer than a thread may be kept from its processor. The fix
/// late-answers tells second answers apart; it was tested with a simulated card only.
constexpr double kLeastRdmaTimeoutMs = 1000;

/// True if the RDMA backend sends messages again that are only late.
bool resendsEarly([[maybe_unused]] const switchml::GeneralConfig& config) {
#ifdef TIMEOUTS
  return !kSimulator && config.backend == "rdma" && !(config.timeout >= kLeastRdmaTimeoutMs);
#else
  return false;  // it sends none again
#endif
}

/// True if the client library has a fix. Its mark has the list: `fixes=ONE,OTHER`.
bool hasFix(const std::string& fix) {
  for (const auto& [name, list] : readTerms(clientMark())) {
    if (name == "fixes") {
      return text(",", list, ",").find(text(",", fix, ",")) != std::string::npos;
    }
  }
  return false;
}

/// The fixes that the client library lacks, and without which its backend sums wrongly and says
/// FINISHED.
std::vector<const char*> missingFixes(const switchml::GeneralConfig& config) {
  if (!usesSwitch(config)) {
    return {};
  }
  auto missing = config.backend == "rdma"
                     ? std::vector<const char*>{"late-answers"}
                     : std::vector<const char*>{"duplicates", "resent-id",      "stale-timers",
                                                "half-batch", "foreign-frames", "fast-free"};
  missing.erase(std::remove_if(missing.begin(), missing.end(), hasFix), missing.end());
  return missing;
}

}  // namespace

bool sumsAreFake(const switchml::GeneralConfig& config) {
  return config.num_workers == 1 || config.instant_job_completion ||
         (!kSimulator && (config.backend == "dummy" || config.prepostprocessor == "bypass"));
}

bool usesSwitch(const switchml::GeneralConfig& config) {
  return !kSimulator && (config.backend == "dpdk" || config.backend == "rdma");
}

std::uint64_t messageNumel(const switchml::Config& config) {
#ifdef RDMA
  if (usesSwitch(config.general_) && config.general_.backend == "rdma") {
    const auto packet = config.general_.packet_numel;
    return config.backend_.rdma.msg_numel / packet * packet;
  }
#endif
  return config.general_.packet_numel;
}

std::uint64_t outstanding(const switchml::Config& config) {
  const auto& general = config.general_;
  const auto packets = messageNumel(config) / general.packet_numel;
  const auto step = general.num_worker_threads * packets;
  return rounded(rounded(general.max_outstanding_packets, general.num_worker_threads), step) /
         packets;
}

bool startsAgain(const switchml::GeneralConfig& config) {
  return kSimulator || (config.backend != "rdma" && hasFix("restart"));
}

bool hasController(const switchml::Config& config) {
#ifdef SWITCHML_SIMULATOR
  return config.backend_.simulator.external_aggregator;
#else
  return usesSwitch(config.general_);
#endif
}

std::string reasonUnusable(const switchml::Config& whole) {
  const auto& config = whole.general_;
  if (config.num_worker_threads == 0) {
    return "num_worker_threads = 0";
  }
  if (config.max_outstanding_packets < config.num_worker_threads) {
    return text("max_outstanding_packets = ", config.max_outstanding_packets,
                " is less than num_worker_threads = ", config.num_worker_threads);
  }
  if (config.packet_numel == 0) {
    return "packet_numel = 0";
  }
  if (config.scheduler != "fifo") {
    return text("scheduler = ", config.scheduler, " is not known");
  }
  if (config.prepostprocessor != "bypass" && config.prepostprocessor != "cpu_exponent_quantizer") {
    return text("prepostprocessor = ", config.prepostprocessor, " is not known");
  }
  std::string built = kSimulator ? " dummy dpdk rdma" : "";
#ifdef DUMMY
  built += " dummy";
#endif
#ifdef DPDK
  built += " dpdk";
#endif
#ifdef RDMA
  built += " rdma";
#endif
  if ((built + " ").find(text(" ", config.backend, " ")) == std::string::npos) {
    return text("backend = ", config.backend, ", but the client library was built for:", built);
  }
  if (!kSimulator && config.backend != "dummy" && config.packet_numel != 64 &&
      config.packet_numel != 256) {
    return text("packet_numel = ", config.packet_numel, ", but backend ", config.backend,
                " takes 64 or 256");
  }
#ifdef RDMA
  if (config.backend == "rdma" && whole.backend_.rdma.msg_numel < config.packet_numel) {
    return text("msg_numel = ", whole.backend_.rdma.msg_numel,
                " is less than packet_numel = ", config.packet_numel);
  }
#endif
#ifdef DPDK
  const auto cores = parseCores(whole.backend_.dpdk.cores_str).size();
  if (usesSwitch(config) && config.backend == "dpdk" && cores != 0 &&
      cores != config.num_worker_threads) {
    return text("cores = ", whole.backend_.dpdk.cores_str, " names ", cores,
                cores == 1 ? " core" : " cores",
                ", but num_worker_threads = ", config.num_worker_threads);
  }
#endif
  if (const auto beyond = beyondSwitch(whole);
      !beyond.empty() && !isSet("SWITCHML_ALLOW_LARGER_SWITCH")) {
    return beyond + " (SWITCHML_ALLOW_LARGER_SWITCH=1: the switch runs a larger program)";
  }
  if (const auto missing = missingFixes(config);
      !missing.empty() && !isSet("SWITCHML_ALLOW_UNFIXED")) {
    return text(
        "the client library lacks the fixes ", joined(missing, ", "),
        ", and without them sums may be wrong and not say so; `switchml-patch client build --",
        config.backend,
        "` makes one that has them (SWITCHML_ALLOW_UNFIXED=1 uses this one all the same)");
  }
  if (resendsEarly(config) && !isSet("SWITCHML_ALLOW_UNFIXED")) {
    return text("timeout = ", config.timeout, ", but RDMA needs ", kLeastRdmaTimeoutMs,
                " ms or more: a message that is sent again may have two answers, and the second "
                "may spoil the next allreduce (SWITCHML_ALLOW_UNFIXED=1 takes the risk)");
  }
  if (sumsAreFake(config) && !isSet("SWITCHML_ALLOW_FAKE_SUMS")) {
    return text(
        config.num_workers == 1
            ? "num_workers = 1"
            : text("backend = ", config.backend, ", prepostprocessor = ", config.prepostprocessor,
                   ", instant_job_completion = ", config.instant_job_completion),
        " does not sum over the ranks (SWITCHML_ALLOW_FAKE_SUMS=1 uses it all the same)");
  }
  // The simulator clamps, and sums that are none anyway, as of bypass, are not spoilt.
  if (!kSimulator && !sumsAreFake(config) && mayOverflow(config.num_workers)) {
    return text("num_workers = ", config.num_workers,
                ": with so many workers the library's fixed point may overflow int32, with fewer "
                "than 256 it never does");
  }
  return "";
}

std::string termsOf(const switchml::Config& whole, const Settings& settings) {
  const auto& config = whole.general_;
  std::string backend;
#ifdef RDMA
  backend += text(" msg_numel=", whole.backend_.rdma.msg_numel);
#endif
#ifdef DPDK
  if (usesSwitch(config) && config.backend == "dpdk") {
    backend += text(" worker_port=", whole.backend_.dpdk.worker_port);
  }
#endif
  auto out =
      text("num_workers=", config.num_workers, " num_worker_threads=", config.num_worker_threads,
           " max_outstanding_packets=", config.max_outstanding_packets,
           " packet_numel=", config.packet_numel,
           kSimulator ? "" : text(" backend=", config.backend, backend),
           " prepostprocessor=", config.prepostprocessor,
           " instant_job_completion=", config.instant_job_completion);
  if (kSimulator) {
    out += text(" simulator=", config.controller_ip_str, ":", config.controller_port);
  }
  out += settings.terms();
  if (!beyondSwitch(whole).empty()) {
    out += " SWITCHML_ALLOW_LARGER_SWITCH=1";
  }
  if (!kSimulator && startsAgain(config)) {
    out += " restart=1";
  }
  const auto missing = missingFixes(config);
  if (!missing.empty() || resendsEarly(config)) {
    out += " SWITCHML_ALLOW_UNFIXED=1";
  }
  if (!missing.empty()) {
    // Ranks that differ in them may use other slots for the same packet.
    out += text(" lacks=", joined(missing, ","));
  }
  return out;
}

}  // namespace switchml_delegate
