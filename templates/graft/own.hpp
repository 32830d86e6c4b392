/// What a graft has instead of torch's, from PyTorch 2.8 on. Included before ProcessGroupGloo.cpp.
#pragma once

#include <c10/util/Registry.h>

#include <cstddef>
#include <optional>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>

// The graft's works come before those that torch registers for the same devices.
#undef C10_REGISTER_TYPED_CREATOR
#define C10_REGISTER_TYPED_CREATOR(registry, key, ...) \
  C10_REGISTER_TYPED_CREATOR_WITH_PRIORITY(registry, key, ::c10::REGISTRY_PREFERRED, __VA_ARGS__)

namespace c10d {

/// Records nothing: the recorder's methods are templates that no library of torch exports.
template <typename Event>
struct NoFlightRecorder {
  struct Trace {
    std::optional<std::size_t> id;
    std::optional<std::size_t> reset_epoch;
    operator std::optional<std::size_t>() const { return id; }
  };
  static NoFlightRecorder* get() {
    static NoFlightRecorder recorder;
    return &recorder;
  }
  template <typename... Values>
  Trace record(const Values&...) {
    return {};
  }
  template <typename... Values>
  Trace recordWithResetEnabled(const Values&...) {
    return {};
  }
  template <typename... Values>
  void record_pg_ranks(const Values&...) {}
  template <typename... Values>
  void retire_id(const Values&...) {}
};

}  // namespace c10d

#define FlightRecorder NoFlightRecorder
