/// Cores that no other rank of a job has on this host.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "host/names.hpp"

namespace switchml_delegate {

class ReservedCores {
 public:
  /// Takes the first `count` of the cores that are free. Throws std::invalid_argument if there are
  /// fewer, with the reason that others are not known. `job` is the same on all ranks of a job.
  std::set<unsigned> take(const std::string& job, const std::vector<unsigned>& from,
                          std::size_t count, const std::string& reason = "");

  /// Keeps them until the process ends. A child that is forked has none of them.
  void keep();

 private:
  std::vector<HeldName> names_;
};

}  // namespace switchml_delegate
