// The delegate's needs of its headers, of the client library and of its flags, in a tenth of its
// time. For tests of how it is compiled and linked.
#include <switchml/context.h>

#include <cstdio>
#include <cstdlib>

#include "SwitchMLAllreduce.hpp"

#ifndef SWITCHML_TORCH_FLAGS
#define SWITCHML_TORCH_FLAGS ""
#endif
#ifdef SWITCHML_SIMULATOR
#define SIMULATOR "true"
#else
#define SIMULATOR "false"
#endif

bool switchml_torch::delegates(const void* context) noexcept {
  switchml::Config config;
  return context != nullptr && config.LoadFromFile(std::getenv("SWITCHML_CONFIG")) &&
         switchml::Context::GetInstance().Start(&config);
}

extern "C" __attribute__((visibility("default"))) std::size_t switchml_torch_report(
    char* buffer, std::size_t capacity) {
  return static_cast<std::size_t>(std::snprintf(
      buffer, capacity, "{\"flags\": \"%s\", \"simulator\": %s}", SWITCHML_TORCH_FLAGS, SIMULATOR));
}
