/// The SwitchML configuration that a rank reads and fills in.
#pragma once

#include <switchml/context.h>

#include <chrono>
#include <string>

#include "host/reserved_cores.hpp"
#include "record.hpp"

namespace switchml_delegate {

/// Configuration of a rank. The thread that makes a group uses it.
struct LoadedConfig {
  switchml::Config config;
  std::string location = "the configuration in use";
  std::string filled;  // values that this rank has filled in, as `key=value`, for a message
  ReservedCores cores;
};

/// Reads the first configuration file that exists, for this rank of a group. Returns what the rank
/// can do with it. Throws std::exception if values of the environment cannot be filled in.
Capabilities loadConfig(LoadedConfig& loaded, int rank, int size);

/// Fills in the values of DPDK that depend on this host; names have `limit` to be resolved. Throws
/// std::exception if that is not possible.
void fillInDpdk(LoadedConfig& loaded, std::chrono::milliseconds limit);

}  // namespace switchml_delegate
