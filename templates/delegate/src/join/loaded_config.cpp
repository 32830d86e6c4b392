#include "join/loaded_config.hpp"

#include <arpa/inet.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "base/file.hpp"
#include "base/result_within.hpp"
#include "base/text.hpp"
#include "host/addresses.hpp"
#include "host/process_cores.hpp"
#include "host/substitution.hpp"
#include "host_name.hpp"
#include "join/eal_options.hpp"

namespace switchml_delegate {
namespace {

constexpr std::size_t kMaxConfiguration = std::size_t{1} << 20U;  // bytes

struct ConfigFile {
  std::string path;
  bool named;  // by the user or the administrator, not by the directory that the process runs in
};

std::vector<ConfigFile> configFiles() {
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

/// IPv4 address that packets of this host to `host` have; empty if there is none. Throws
/// std::invalid_argument if no server of names answers within `limit`.
[[maybe_unused]] std::string sourceAddressWithin(std::chrono::milliseconds limit,
                                                 const std::string& host) {
  const auto found = resultWithin(limit, [host] { return sourceAddress(host); });
  if (!found) {
    throw std::invalid_argument(text("worker_ip = ", kAuto, ": no address of ", shortened(host),
                                     " was found within ", limit.count(),
                                     " ms; set worker_ip, or controller_ip to an address"));
  }
  in_addr parsed{};
  return inet_pton(AF_INET, found->c_str(), &parsed) == 1 ? *found : "";
}

}  // namespace

void fillInDpdk([[maybe_unused]] LoadedConfig& loaded,
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
    const auto reserved = loaded.cores.reserve(job, inOrder(process.all, near, process.bound),
                                               general.num_worker_threads, process.reason);
    const bool shared = !process.bound.empty() && reserved.count(*process.bound.begin()) != 0;
    dpdk.cores_str = joined(reserved, ",");
    noteFilled(loaded.filled, "cores", dpdk.cores_str + (shared ? process.note : ""));
  }
  if (const auto options = withoutSharedFiles(dpdk.extra_eal_options);
      options != dpdk.extra_eal_options) {
    dpdk.extra_eal_options = options;
    noteFilled(loaded.filled, "extra_eal_options", options);
  }
#endif
}

Capabilities loadConfig(LoadedConfig& loaded, int rank, int size) {
  std::string missing;
  for (const auto& file : configFiles()) {
    const CheckedFile opened(file.path);
    if (!opened.isOpen()) {
      missing += text(missing.empty() ? "" : ", ", file.path);
      missing += opened.error().empty() ? "" : text(" (", opened.error(), ")");
      continue;
    }
    loaded.location = file.path;
    if (const auto reason = file.named ? "" : opened.writableByOthers(); !reason.empty()) {
      return Capabilities::unable("a switchml.cfg that others could have written",
                                  text(file.path, ": ", reason));
    }
    std::string whole;
    try {
      whole = opened.read(kMaxConfiguration);
    } catch (const std::runtime_error& error) {
      return Capabilities::unable("unreadable switchml.cfg", text(file.path, ": ", error.what()));
    }
    const auto filled = memoryFile(
        "switchml.cfg",
        fillIn(whole, {{"general.rank", rank}, {"general.num_workers", size}}, loaded.filled));
    return loaded.config.LoadFromFile(pathOf(filled))
               ? Capabilities()
               : Capabilities::unable("unreadable switchml.cfg", file.path);
  }
  return Capabilities::unable("no switchml.cfg", "looked at " + missing);
}

}  // namespace switchml_delegate
