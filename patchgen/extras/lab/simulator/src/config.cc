#include "config.h"

#include <limits.h>
#include <unistd.h>

#include <array>
#include <boost/program_options.hpp>
#include <cmath>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "log.h"
#include "protocol.h"

namespace switchml {
namespace {

namespace po = boost::program_options;

po::options_description Options(GeneralConfig& general, BackendConfig& backend) {
  po::options_description options;
  const auto add = [&options](const char* key, auto& value, auto fallback) {
    using Value = std::decay_t<decltype(value)>;
    options.add_options()(key, po::value(&value)->default_value(static_cast<Value>(fallback)));
  };
  add("general.rank", general.rank, 0);
  add("general.num_workers", general.num_workers, 1);
  add("general.num_worker_threads", general.num_worker_threads, 4);
  add("general.max_outstanding_packets", general.max_outstanding_packets, 256);
  add("general.packet_numel", general.packet_numel, 1024);
  add("general.backend", general.backend, "dummy");
  add("general.scheduler", general.scheduler, "fifo");
  add("general.prepostprocessor", general.prepostprocessor, "cpu_exponent_quantizer");
  add("general.instant_job_completion", general.instant_job_completion, false);
  add("general.controller_ip", general.controller_ip_str, "127.0.0.1");
  add("general.controller_port", general.controller_port, 50099);
  add("general.timeout", general.timeout, 10);
  add("general.timeout_threshold", general.timeout_threshold, 100);
  add("general.timeout_threshold_increment", general.timeout_threshold_increment, 100);

  add("backend.dummy.bandwidth", backend.dummy.bandwidth, 1000);
  add("backend.dummy.process_packets", backend.dummy.process_packets, true);

  add("backend.simulator.external_aggregator", backend.simulator.external_aggregator, false);

  add("backend.dpdk.worker_port", backend.dpdk.worker_port, 4000);
  add("backend.dpdk.worker_ip", backend.dpdk.worker_ip_str, "10.0.0.1");
  add("backend.dpdk.cores", backend.dpdk.cores_str, "0-3");
  add("backend.dpdk.extra_eal_options", backend.dpdk.extra_eal_options, "");
  add("backend.dpdk.port_id", backend.dpdk.port_id, 0);
  add("backend.dpdk.pool_size", backend.dpdk.pool_size, 8192 * 32);
  add("backend.dpdk.pool_cache_size", backend.dpdk.pool_cache_size, 512);
  add("backend.dpdk.burst_rx", backend.dpdk.burst_rx, 64);
  add("backend.dpdk.burst_tx", backend.dpdk.burst_tx, 64);
  add("backend.dpdk.bulk_drain_tx_us", backend.dpdk.bulk_drain_tx_us, 100);

  add("backend.rdma.msg_numel", backend.rdma.msg_numel, 1024);
  add("backend.rdma.device_name", backend.rdma.device_name, "mlx5_0");
  add("backend.rdma.device_port_id", backend.rdma.device_port_id, 1);
  add("backend.rdma.gid_index", backend.rdma.gid_index, 3);
  return options;
}

std::vector<std::string> DefaultPaths() {
  std::vector<std::string> paths{"/etc/switchml.cfg", "switchml.cfg"};
  std::array<char, HOST_NAME_MAX + 1> hostname{};
  if (gethostname(hostname.data(), hostname.size() - 1) == 0) {
    paths.push_back("switchml-" + std::string(hostname.data()) + ".cfg");
  }
  return paths;
}

void Require(bool valid, const std::string& what) {
  if (!valid) {
    throw std::invalid_argument(what);
  }
}

}  // namespace

bool Config::LoadFromFile(std::string path) {
  const std::vector<std::string> paths =
      path.empty() ? DefaultPaths() : std::vector<std::string>{path};
  std::string tried;
  for (const std::string& candidate : paths) {
    std::ifstream file(candidate);
    if (file.good()) {
      po::variables_map values;
      po::store(po::parse_config_file(file, Options(general_, backend_)), values);
      po::notify(values);
      return true;
    }
    tried += (tried.empty() ? "" : ", ") + candidate;
  }
  Log("no configuration: cannot read " + tried);
  return false;
}

void Config::Validate() {
  const GeneralConfig& g = general_;
  const auto text = [](uint64_t value) { return " " + std::to_string(value); };
  Require(std::isfinite(g.timeout) && g.timeout > 0 && g.timeout_threshold > 0 &&
              g.timeout_threshold_increment > 0,
          "timeout, timeout_threshold and timeout_threshold_increment must be greater than 0");
  const std::string invalid = InvalidReason(MakeHello(g));
  Require(invalid.empty(), invalid);
  Require(g.backend == "dummy" || g.backend == "dpdk" || g.backend == "rdma",
          "backend " + g.backend + " is none of dummy, dpdk, rdma");
  Require(g.backend == "dummy" || g.packet_numel == 64 || g.packet_numel == 256,
          "packet_numel" + text(g.packet_numel) + " is neither 64 nor 256, as " + g.backend +
              " needs it");
  Require(g.scheduler == "fifo", "scheduler " + g.scheduler + " is not fifo");
  Require(
      g.prepostprocessor == "bypass" || g.prepostprocessor == "cpu_exponent_quantizer",
      "prepostprocessor " + g.prepostprocessor + " is neither bypass nor cpu_exponent_quantizer");
  Require(g.controller_port > 0, "controller_port is 0");
}

void Config::PrintConfig() {
  const GeneralConfig& g = general_;
  Log("rank " + std::to_string(g.rank) + " of " + std::to_string(g.num_workers) +
      ", num_worker_threads " + std::to_string(g.num_worker_threads) +
      ", max_outstanding_packets " + std::to_string(g.max_outstanding_packets) + ", packet_numel " +
      std::to_string(g.packet_numel) + ", backend " + g.backend + ", prepostprocessor " +
      g.prepostprocessor + ", controller " + g.controller_ip_str + ":" +
      std::to_string(g.controller_port));
}

}  // namespace switchml
