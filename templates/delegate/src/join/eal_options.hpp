/// Options of DPDK's environment abstraction layer (EAL), as switchml.cfg has them.
#pragma once

#include <string>

namespace switchml_delegate {

/// Returns DPDK's options with those that keep processes from sharing files, unless the options ask
/// for files: SwitchML locks nothing between processes, and two that open the same pages write into
/// each other's memory.
std::string withoutSharedFiles(const std::string& options);

}  // namespace switchml_delegate
