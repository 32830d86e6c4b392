/// The SwitchML configuration of this rank: where it is, whether it can be used, and what of it
/// must be the same on every rank.
#pragma once

#include <arpa/inet.h>
#include <switchml/context.h>

#include <climits>
#include <exception>

#include "base/file.hpp"
#include "base/result_within.hpp"
#include "host/addresses.hpp"
#include "host/host_name.hpp"
#include "host/process_cores.hpp"
#include "host/reserved_cores.hpp"
#include "host/substitution.hpp"
#include "join/agreement.hpp"
#include "join/eal_options.hpp"
#include "join/settings.hpp"

namespace switchml_delegate {

#ifdef SWITCHML_SIMULATOR
constexpr bool kSimulator = true;
#else
constexpr bool kSimulator = false;
#endif

/// Mark of the client library, which says how it was made; empty where it says nothing.
inline std::string clientMark() { return SWITCHML_DELEGATE_CLIENT; }

// Room in SwitchML's own P4 program.
constexpr std::uint16_t kSwitchWorkers = 32;
constexpr std::uint64_t kSwitchSlots = 8192;
constexpr std::uint64_t kSwitchQueuePairs = 512;

struct Place {
  std::string path;
  bool named;  // by the user or the administrator, not by the directory that the process runs in
};

inline std::vector<Place> configPlaces() {
  if (const char* path = std::getenv("SWITCHML_CONFIG"); path != nullptr && *path != '\0') {
    return {{path, true}};
  }
  std::array<char, PATH_MAX> directory{};
  const std::string here =
      getcwd(directory.data(), directory.size()) == nullptr ? "./" : text(directory.data(), "/");
  return {{"/etc/switchml.cfg", true},
          {here + "switchml.cfg", false},
          {text(here, "switchml-", hostName(), ".cfg"), false}};
}

/// One worker alone has nothing to sum, the dummy backend talks to nobody, bypass does not convert
/// for the switch, and instant jobs do nothing. In the simulator dummy and bypass do sum.
inline bool sumsAreFake(const switchml::GeneralConfig& config) {
  return config.num_workers == 1 || config.instant_job_completion ||
         (!kSimulator && (config.backend == "dummy" || config.prepostprocessor == "bypass"));
}

/// True where int32 of the workers can have a sum that is no int32. The library rounds its factor
/// INT32_MAX / (num_workers * 2^e) to float, a value times it to float and that to an integer, and
/// clamps nothing. The largest value below 2^e on every worker is the worst case, whatever e is.
inline bool mayOverflow(std::uint16_t workers) {
  const auto factor = static_cast<float>(static_cast<double>(INT32_MAX) / workers);
  const float worst = std::nextafter(1.0F, 0.0F) * factor;
  return workers * static_cast<std::int64_t>(std::round(worst)) > INT32_MAX;
}

/// True where packets travel to a switch.
inline bool usesSwitch(const switchml::GeneralConfig& config) {
  return !kSimulator && (config.backend == "dpdk" || config.backend == "rdma");
}

/// The library makes max_outstanding_packets a multiple of this, the nearest, when it starts.
inline std::uint64_t rounded(std::uint64_t packets, std::uint64_t step) {
  const auto least = packets / step;
  return std::max<std::uint64_t>(least + (packets % step > step - packets % step ? 1 : 0), 1) *
         step;
}

/// Elements that travel together: a packet, or a message of several packets with RDMA.
inline std::uint64_t messageNumel(const switchml::Config& config) {
#ifdef RDMA
  if (usesSwitch(config.general_) && config.general_.backend == "rdma") {
    const auto packet = config.general_.packet_numel;
    return config.backend_.rdma.msg_numel / packet * packet;
  }
#endif
  return config.general_.packet_numel;
}

/// The messages that a worker has on the way at most.
inline std::uint64_t outstanding(const switchml::Config& config) {
  const auto& general = config.general_;
  const auto packets = messageNumel(config) / general.packet_numel;
  const auto step = general.num_worker_threads * packets;
  return rounded(rounded(general.max_outstanding_packets, general.num_worker_threads), step) /
         packets;
}

/// Settings for which SwitchML's own P4 program has no room. It writes beside its
/// registers then, or refuses the worker in a way that the library does not look at.
inline std::string beyondSwitch(const switchml::Config& config) {
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

/// A message of RDMA that is sent again may have two answers, and the second comes when the next
/// job has begun. Where nothing is lost, messages are sent again only when a rank is later than
/// this: it is to be longer than a thread may be kept from its processor. That the fix
/// late-answers tells second answers apart has been seen on a simulated card only, as no machine
/// here has another.
constexpr double kLeastRdmaTimeoutMs = 1000;

/// True where the RDMA backend sends messages again that are only late.
inline bool resendsEarly([[maybe_unused]] const switchml::GeneralConfig& config) {
#ifdef TIMEOUTS
  return !kSimulator && config.backend == "rdma" && !(config.timeout >= kLeastRdmaTimeoutMs);
#else
  return false;  // it sends none again
#endif
}

/// True where the library has a fix, of which its mark has a list: `fixes=ONE,OTHER`.
inline bool hasFix(const std::string& fix) {
  for (const auto& [name, list] : readTerms(clientMark())) {
    if (name == "fixes") {
      return text(",", list, ",").find(text(",", fix, ",")) != std::string::npos;
    }
  }
  return false;
}

/// True where the context can be started anew in the process in which it was stopped.
inline bool startsAgain(const switchml::GeneralConfig& config) {
  return kSimulator || (config.backend != "rdma" && hasFix("restart"));
}

/// True where a controller has to be reached before the context is started again.
inline bool hasController(const switchml::Config& config) {
#ifdef SWITCHML_SIMULATOR
  return config.backend_.simulator.external_aggregator;
#else
  return usesSwitch(config.general_);
#endif
}

/// The fixes without which the library's backend sums wrongly and says FINISHED.
inline std::vector<const char*> missingFixes(const switchml::GeneralConfig& config) {
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

/// Reason why the library would abort the process, or answer with numbers that are not sums.
inline std::string objection(const switchml::Config& whole) {
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

inline std::string termsOf(const switchml::Config& whole, const Settings& settings) {
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
  // At the end, since only some groups have them.
  std::string allowed = settings.failsOver ? " SWITCHML_FAILOVER=1" : "";
  if (settings.group != 1) {
    allowed += text(" SWITCHML_GROUP=", settings.group);
  }
  if (!beyondSwitch(whole).empty()) {
    allowed += " SWITCHML_ALLOW_LARGER_SWITCH=1";
  }
  if (!kSimulator && startsAgain(config)) {
    allowed += " restart=1";
  }
  const auto missing = missingFixes(config);
  if (!missing.empty() || resendsEarly(config)) {
    allowed += " SWITCHML_ALLOW_UNFIXED=1";
  }
  if (!missing.empty()) {
    // Ranks that differ in them may use other slots for the same packet.
    allowed += text(" lacks=", joined(missing, ","));
  }
  return text(
      "num_workers=", config.num_workers, " num_worker_threads=", config.num_worker_threads,
      " max_outstanding_packets=", config.max_outstanding_packets,
      " packet_numel=", config.packet_numel,
      kSimulator ? "" : text(" backend=", config.backend, backend),
      " prepostprocessor=", config.prepostprocessor,
      " instant_job_completion=", config.instant_job_completion,
      " SWITCHML_MIN_NUMEL=", settings.minNumel, " SWITCHML_CHUNK_NUMEL=", settings.chunkNumel,
      " SWITCHML_DTYPES=", settings.dtypes.names(","), " SWITCHML_OPS=", settings.ops.names(","),
      " SWITCHML_QUANTIZATION_BITS=", settings.quantization.bits,
      kSimulator ? text(" simulator=", config.controller_ip_str, ":", config.controller_port) : "",
      settings.quantization.terms(), allowed);
}

struct Loaded {
  switchml::Config config;
  std::string place = "the configuration in use";
  std::string filled;  // values that this rank has filled in, as `key=value`, for a message
  ReservedCores cores;
};

/// IPv4 address that packets of this host to `host` have; empty if there is none. Throws
/// std::invalid_argument if no server of names answers within `limit`.
inline std::string sourceAddressWithin(std::chrono::milliseconds limit, const std::string& host) {
  const auto found = resultWithin(limit, [host] { return sourceAddress(host); });
  if (!found) {
    throw std::invalid_argument(text("worker_ip = ", kAuto, ": no address of ", shortened(host),
                                     " was found within ", limit.count(),
                                     " ms; set worker_ip, or controller_ip to an address"));
  }
  in_addr parsed{};
  return inet_pton(AF_INET, found->c_str(), &parsed) == 1 ? *found : "";
}

/// Fills in what depends on this host; names have `limit` to be resolved. Throws where that is not
/// possible.
inline void fillInDpdk([[maybe_unused]] Loaded& loaded,
                       [[maybe_unused]] std::chrono::milliseconds limit) {
#if defined(DPDK) || defined(SWITCHML_SIMULATOR)
  const auto& general = loaded.config.general_;
  auto& dpdk = loaded.config.backend_.dpdk;
  const auto known = interfaces();
  auto card = namedCard(dpdk.extra_eal_options);
  const bool follows = dpdk.worker_ip_str == kAuto && card.interface.empty();
  const auto other = follows ? sourceAddressWithin(limit, general.controller_ip_str) : "";
  const auto address = workerAddress(dpdk.worker_ip_str, known, card, other);
  if (card.directory.empty()) {
    const auto owner = std::find_if(known.begin(), known.end(),
                                    [&address](const auto& one) { return one.second == address; });
    card = owner == known.end() ? card : Card::of(owner->first);
  }
  if (address != dpdk.worker_ip_str) {
    dpdk.worker_ip_str = address;
    noteFilled(loaded.filled, "worker_ip", address);
  }
  if (dpdk.cores_str == kAuto) {
    const auto near = parseCores(firstLine(card.directory + "/local_cpulist"));
    const auto job = text(general.controller_port, "/", general.controller_ip_str);
    const ProcessCores process;
    const auto taken = loaded.cores.take(job, inOrder(process.all, near, process.bound),
                                         general.num_worker_threads, process.reason);
    const bool shared = !process.bound.empty() && taken.count(*process.bound.begin()) != 0;
    dpdk.cores_str = joined(taken, ",");
    noteFilled(loaded.filled, "cores", dpdk.cores_str + (shared ? process.note : ""));
  }
  if (const auto options = withoutSharedFiles(dpdk.extra_eal_options);
      options != dpdk.extra_eal_options) {
    dpdk.extra_eal_options = options;
    noteFilled(loaded.filled, "extra_eal_options", options);
  }
#endif
}

/// Largest configuration, in bytes.
constexpr std::size_t kMostConfiguration = std::size_t{1} << 20U;

/// Reads the first place that has a file, for this rank of a group, or refuses. Throws where its
/// values cannot be filled in.
inline Capabilities loadConfig(Loaded& loaded, int rank, int size) {
  std::string missing;
  for (const auto& place : configPlaces()) {
    const CheckedFile file(place.path);
    if (!file.isOpen()) {
      missing += text(missing.empty() ? "" : ", ", place.path);
      missing += file.error().empty() ? "" : text(" (", file.error(), ")");
      continue;
    }
    loaded.place = place.path;
    if (const auto why = place.named ? "" : file.writableByOthers(); !why.empty()) {
      return Capabilities::unable("a switchml.cfg that others could have written",
                                  text(place.path, ": ", why));
    }
    std::string whole;
    try {
      whole = file.read(kMostConfiguration);
    } catch (const std::runtime_error& error) {
      return Capabilities::unable("unreadable switchml.cfg", text(place.path, ": ", error.what()));
    }
    const auto filled = memoryFile(
        "switchml.cfg",
        fillIn(whole, {{"general.rank", rank}, {"general.num_workers", size}}, loaded.filled));
    return loaded.config.LoadFromFile(pathOf(filled))
               ? Capabilities()
               : Capabilities::unable("unreadable switchml.cfg", place.path);
  }
  return Capabilities::unable("no switchml.cfg", "looked at " + missing);
}

}  // namespace switchml_delegate
