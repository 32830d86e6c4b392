#include "sum/packets.hpp"

#include "base/text.hpp"

namespace switchml_delegate {

std::string Packets::summary() const {
  return known ? text("packets: ", sent, " sent, ", answers, " answered, ", wrong, " wrong, ",
                      timeouts, timeouts == 1 ? " timeout" : " timeouts")
               : "";
}

std::string Packets::json() const {
  return known ? text("{\"sent\": ", sent, ", \"answers\": ", answers, ", \"wrong\": ", wrong,
                      ", \"timeouts\": ", timeouts, "}")
               : "null";
}

}  // namespace switchml_delegate
