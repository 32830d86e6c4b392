#include "report.h"

#include <cstdio>
#include <utility>
#include <vector>

namespace softswitch {
namespace {

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char each : text) {
    if (each == '"' || each == '\\') {
      quoted += '\\';
      quoted += each;
    } else if (static_cast<unsigned char>(each) < ' ') {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(each));
      quoted += escape;
    } else {
      quoted += each;
    }
  }
  return quoted + "\"";
}

// A JSON object, made from names and JSON values.
class Object {
 public:
  Object& Add(const std::string& name, const std::string& value) {
    text_ += (text_.empty() ? "" : ", ") + Quoted(name) + ": " + value;
    return *this;
  }
  Object& Add(const std::string& name, std::uint64_t value) {
    return Add(name, std::to_string(value));
  }
  std::string Text() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

std::string List(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "\n    " : ",\n    ") + item;
  return "[" + text + (items.empty() ? "]" : "\n  ]");
}

std::string Worker(std::size_t rank, const WorkerCounters& worker) {
  return Object()
      .Add("rank", rank)
      .Add("received", worker.received)
      .Add("summed", worker.summed)
      .Add("resent", worker.resent)
      .Add("answered", worker.answered)
      .Add("answered_again", worker.answered_again)
      .Add("malformed", worker.malformed)
      .Add("elsewhere", worker.elsewhere)
      .Add("lost", worker.lost)
      .Add("answers_lost", worker.answers_lost)
      .Text();
}

std::string Set(std::size_t number, const SetCounters& set) {
  return Object()
      .Add("set", number)
      .Add("received", set.received)
      .Add("summed", set.summed)
      .Add("resent", set.resent)
      .Add("complete", set.complete)
      .Add("answered_again", set.answered_again)
      .Text();
}

std::string PortOf(const Port& port) {
  return Object()
      .Add("port", Quoted(port.name()))
      .Add("received", port.counters().received)
      .Add("sent", port.counters().sent)
      .Add("no_room", port.counters().no_room)
      .Add("departures", port.departures())
      .Text();
}

}  // namespace

std::string Report(const DataPlane& plane, std::uint64_t seed) {
  const Counters& counters = plane.counters();
  std::vector<std::string> workers;
  for (std::size_t rank = 0; rank < kMaxWorkers; ++rank) {
    const WorkerCounters& worker = counters.workers[rank];
    if (worker.received + worker.answered + worker.lost != 0) {
      workers.push_back(Worker(rank, worker));
    }
  }
  std::vector<std::string> sets;
  for (std::size_t set = 0; set < kSets; ++set) sets.push_back(Set(set, counters.sets[set]));
  std::vector<std::string> ports;
  for (const auto& port : plane.ports()) ports.push_back(PortOf(*port));
  return "{\n  \"seed\": " + std::to_string(seed) +
         ",\n  \"sessions\": " + std::to_string(counters.sessions) +
         ",\n  \"foreign\": " + std::to_string(counters.foreign) +
         ",\n  \"duplicated\": " + std::to_string(counters.duplicated) +
         ",\n  \"overtaken\": " + std::to_string(counters.overtaken) +
         ",\n  \"workers\": " + List(workers) + ",\n  \"sets\": " + List(sets) +
         ",\n  \"ports\": " + List(ports) + "\n}\n";
}

}  // namespace softswitch
