#include "host/reserved_cores.hpp"

#include <stdexcept>

#include "base/text.hpp"
#include "host/substitution.hpp"

namespace switchml_delegate {

std::set<unsigned> ReservedCores::reserve(const std::string& job, const std::vector<unsigned>& from,
                                          std::size_t count, const std::string& reason) {
  std::set<unsigned> reserved;
  std::vector<unsigned> busy;
  for (const auto core : from) {
    if (reserved.size() == count) {
      break;
    }
    HeldName name(text("core/", core, "/", job), HeldName::Kind::kWanted);
    if (name.own()) {
      names_.push_back(std::move(name));
      reserved.insert(core);
    } else {
      busy.push_back(core);
    }
  }
  if (reserved.size() < count) {
    throw std::invalid_argument(
        text("cores = ", kAuto, ": the client's threads need ", count,
             count == 1 ? " core" : " cores", ", and this process may use ", from.size(),
             busy.empty() ? "" : text(", of which others have ", joined(busy, ",")), reason,
             "; set num_worker_threads, or give the ranks more cores"));
  }
  return reserved;
}

void ReservedCores::keep() {
  static auto& kept = *new std::vector<HeldName>;
  for (auto& name : names_) {
    kept.push_back(std::move(name));
  }
  names_.clear();
}

}  // namespace switchml_delegate
