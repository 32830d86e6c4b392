// The configuration, as read from switchml.cfg or filled in by the program.
#ifndef SWITCHML_CONFIG_H_
#define SWITCHML_CONFIG_H_

#include <cstdint>
#include <string>

#include "common.h"

namespace switchml {

struct GeneralConfig {
  uint16_t rank;
  uint16_t num_workers;
  uint16_t num_worker_threads;
  uint32_t max_outstanding_packets;
  uint64_t packet_numel;         // elements of a packet, which share a scaling factor
  std::string backend;           // dummy, dpdk or rdma; the simulator uses TCP for each of them
  std::string scheduler;         // fifo
  std::string prepostprocessor;  // bypass or cpu_exponent_quantizer
  bool instant_job_completion;   // jobs finish at once, without communication
  std::string controller_ip_str;
  uint16_t controller_port;

  // In the simulator timeout (ms) * timeout_threshold * timeout_threshold_increment is how long a
  // worker waits for the others, in Start() as in a job.
  double timeout;
  uint64_t timeout_threshold;
  uint64_t timeout_threshold_increment;
};

// The settings of these backends are read, and have no effect in the simulator.
struct DpdkBackendConfig {
  uint16_t worker_port;
  std::string worker_ip_str;
  std::string cores_str;
  std::string extra_eal_options;
  uint16_t port_id;
  uint32_t pool_size;
  uint32_t pool_cache_size;
  uint32_t burst_rx;
  uint32_t burst_tx;
  uint32_t bulk_drain_tx_us;
};

struct RdmaBackendConfig {
  uint32_t msg_numel;
  std::string device_name;
  uint16_t device_port_id;
  uint16_t gid_index;
};

struct DummyBackendConfig {
  float bandwidth;
  bool process_packets;
};

// Settings that only the simulator has.
struct SimulatorConfig {
  bool external_aggregator;  // another process is at controller_ip and controller_port
};

struct BackendConfig {
  DpdkBackendConfig dpdk;
  RdmaBackendConfig rdma;
  DummyBackendConfig dummy;
  SimulatorConfig simulator;
};

// Only one thread at a time uses a configuration.
class Config {
 public:
  // Reads `path`. If that is empty, reads the first of /etc/switchml.cfg, ./switchml.cfg and
  // ./switchml-<hostname>.cfg that can be opened; false if none can. Throws
  // boost::program_options::error for an unknown key or a value that cannot be parsed.
  bool LoadFromFile(std::string path = "");

  // Throws std::invalid_argument with the offending key and value.
  void Validate();

  // Writes [general] to stderr.
  void PrintConfig();

  GeneralConfig general_{};
  BackendConfig backend_{};
};

}  // namespace switchml

#endif  // SWITCHML_CONFIG_H_
