// What the delegate refuses of a configuration.
#include <switchml/config.h>

#include <cstdint>
#include <iostream>
#include <string>

#include "check.hpp"
#include "join/config.hpp"
#include "join/settings.hpp"
#include "threads.hpp"

void printRefusal(const char* path, bool allSizes) {
  switchml::Config config;
  check(config.LoadFromFile(path), "a configuration");
  if (!allSizes) {
    switchml_delegate::Settings settings;
    auto wrong = settings.read();
    wrong = wrong.empty() ? switchml_delegate::reasonUnusable(config) : wrong;
    std::cout << (wrong.empty() ? switchml_delegate::termsOf(config, settings) : wrong) << "\n";
    return;
  }
  for (std::uint32_t workers = 2; workers <= UINT16_MAX; ++workers) {
    config.general_.num_workers = static_cast<std::uint16_t>(workers);
    if (const auto wrong = switchml_delegate::reasonUnusable(config); !wrong.empty()) {
      std::cout << workers << ": " << wrong << "\n";
    }
  }
}
