// Prints the reason why the delegate refuses the configuration in a file, or else its terms for the
// other ranks. With a second argument, instead: a line for every num_workers that is
// refused, from 2 on.
#include <cstdint>
#include <iostream>
#include <string>

#define SWITCHML_DELEGATE_DIGEST ""  // of the sources; no rank is there to compare it
#include "join/config.cpp"
#include "parts.cpp"

int main(int argc, char** argv) {
  switchml::Config config;
  if (argc < 2 || !config.LoadFromFile(argv[1])) {
    return 2;
  }
  if (argc == 2) {
    switchml_delegate::Settings settings;
    auto wrong = settings.read();
    wrong = wrong.empty() ? switchml_delegate::reasonUnusable(config) : wrong;
    std::cout << (wrong.empty() ? switchml_delegate::termsOf(config, settings) : wrong) << "\n";
    return 0;
  }
  for (std::uint32_t workers = 2; workers <= UINT16_MAX; ++workers) {
    config.general_.num_workers = static_cast<std::uint16_t>(workers);
    if (const auto wrong = switchml_delegate::reasonUnusable(config); !wrong.empty()) {
      std::cout << workers << ": " << wrong << "\n";
    }
  }
  return 0;
}
