// The delegate library's needs of its headers, of the client library and of its flags, in a tenth
// of its time. For tests of how it is compiled, linked and opened.
#include <switchml/context.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "SwitchMLInterface.hpp"

#ifdef SWITCHML_SIMULATOR
#define SIMULATOR "true"
#else
#define SIMULATOR "false"
#endif

extern "C" __attribute__((weak)) int fake_drivers();  // of a DPDK, that have registered themselves

namespace {

class Small final : public switchml_delegate::Interface {
  bool delegates(const void* context) const noexcept override {
    switchml::Config config;
    return context != nullptr && config.LoadFromFile(std::getenv("SWITCHML_CONFIG")) &&
           switchml::Context::GetInstance().Start(&config);
  }
  std::uint64_t takeSequence(const void*, const switchml_delegate::Request&) noexcept override {
    return switchml_delegate::kNoSequence;
  }
  std::uint64_t partNumel() const noexcept override { return 0; }
  void reduce(std::uint64_t, const switchml_delegate::Request&, std::chrono::milliseconds,
              const switchml_delegate::PartCallbacks&) override {}
  void abandon(std::uint64_t) noexcept override {}
  void join(const std::vector<const void*>&, int, int, std::chrono::milliseconds,
            const switchml_delegate::Exchange&) override {}
  void leave(const void*) noexcept override {}
  void abort(const void*) noexcept override {}
  std::size_t report(char* buffer, std::size_t capacity) const override {
    return static_cast<std::size_t>(std::snprintf(
        buffer, capacity,
        "{\"problem\": \"\", \"flags\": \"%s\", \"sources\": \"%s\", \"simulator\": " SIMULATOR
        ", \"drivers\": %d}",
        SWITCHML_DELEGATE_FLAGS, SWITCHML_DELEGATE_DIGEST,
        fake_drivers == nullptr ? 0 : fake_drivers()));
  }
};

}  // namespace

switchml_delegate::Interface* switchml_delegate_interface(const char* digest) {
  static Small own;
  return std::string(digest) == SWITCHML_DELEGATE_DIGEST ? &own : nullptr;
}
