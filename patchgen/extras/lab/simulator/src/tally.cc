#include "tally.h"

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

std::string Json(const Tally& tally) {
  std::string workers;
  for (size_t rank = 0; rank < tally.workers.size(); ++rank) {
    const WorkerTally& worker = tally.workers[rank];
    workers += std::string(rank == 0 ? "\n  {" : ",\n  {") +
               Text({{"rank", rank},
                     {"joined", worker.joined},
                     {"received", worker.received},
                     {"sent", worker.sent}}) +
               "}";
  }
  return "{" +
         Text({{"sessions", tally.sessions},
               {"broken", tally.broken},
               {"refused", tally.refused},
               {"jobs", tally.jobs},
               {"elements", tally.elements}}) +
         ",\n \"workers\": [" + workers + "]}\n";
}

}  // namespace switchml
