// What the delegate has against a configuration of the real client library, for every num_workers:
// a line for each that is refused.
#include <cstdint>
#include <iostream>
#include <string>

#include "SwitchMLConfig.hpp"

int main(int argc, char** argv) {
  if (argc != 3) {
    return 2;
  }
  switchml::Config config;
  auto& general = config.general_;
  general.num_worker_threads = 4;
  general.max_outstanding_packets = 256;
  general.packet_numel = 256;
  general.backend = argv[1];
  general.scheduler = "fifo";
  general.prepostprocessor = argv[2];
  for (std::uint32_t workers = 1; workers <= UINT16_MAX; ++workers) {
    general.num_workers = static_cast<std::uint16_t>(workers);
    if (const auto wrong = switchml_torch::objection(config); !wrong.empty()) {
      std::cout << workers << ": " << wrong << "\n";
    }
  }
  return 0;
}
