/// Reservation of cores among the ranks of a job on this host.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "host/names.hpp"

namespace switchml_delegate {

/// Cores that no other rank of the job has, until this is destroyed. One thread at a time calls it:
/// the one that makes a group.
class ReservedCores {
 public:
  /// Reserves the first `count` of the cores that no other rank has reserved. `job` is the same on
  /// all ranks of a job. Throws std::invalid_argument if too few are free; `reason` is a part of
  /// the message, and says why the process may have more cores than `from`.
  std::set<unsigned> reserve(const std::string& job, const std::vector<unsigned>& from,
                             std::size_t count, const std::string& reason = "");

  /// Keeps the cores reserved until the process ends. A forked child has none of them.
  void keep();

 private:
  std::vector<HeldName> names_;
};

}  // namespace switchml_delegate
