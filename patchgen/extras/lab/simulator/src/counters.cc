#include "counters.h"

#include <initializer_list>
#include <utility>

namespace switchml {
namespace {

using Members = std::initializer_list<std::pair<const char*, uint64_t>>;

std::string Text(const Members& members) {
  std::string text;
  for (const auto& [name, value] : members) {
    text += std::string(text.empty() ? "" : ", ") + '"' + name + "\": " + std::to_string(value);
  }
  return text;
}

}  // namespace

std::string Json(const Counters& counters) {
  std::string workers;
  for (size_t rank = 0; rank < counters.workers.size(); ++rank) {
    const WorkerCounters& worker = counters.workers[rank];
    workers += std::string(rank == 0 ? "\n  {" : ",\n  {") +
               Text({{"rank", rank},
                     {"joined", worker.joined},
                     {"received", worker.received},
                     {"sent", worker.sent}}) +
               "}";
  }
  return "{" +
         Text({{"sessions", counters.sessions},
               {"broken", counters.broken},
               {"refused", counters.refused},
               {"jobs", counters.jobs},
               {"elements", counters.elements}}) +
         ",\n \"workers\": [" + workers + "]}\n";
}

}  // namespace switchml
