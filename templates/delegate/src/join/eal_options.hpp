/// Options of DPDK's environment abstraction layer (EAL), as switchml.cfg has them.
#pragma once

#include <string>

namespace switchml_delegate {

/// Returns DPDK's options, with the options added that keep its processes from sharing files,
/// unless the options ask for files. DPDK's files are for one process: two that open the same huge
/// pages write into each other's memory.
std::string withoutSharedFiles(const std::string& options);

}  // namespace switchml_delegate
