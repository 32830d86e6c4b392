/// Overrides of torch's headers in a graft of PyTorch 2.8 and newer. The compiler includes this
/// file before ProcessGroupGloo.cpp: see CMakeLists.txt.
#pragma once

#include <c10/util/Registry.h>

#include <cstddef>
#include <optional>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>

// Registers the graft's works with a higher priority than torch's works for the same devices.
#undef C10_REGISTER_TYPED_CREATOR
#define C10_REGISTER_TYPED_CREATOR(registry, key, ...) \
  C10_REGISTER_TYPED_CREATOR_WITH_PRIORITY(registry, key, ::c10::REGISTRY_PREFERRED, __VA_ARGS__)

namespace c10d {

/// Recorder that records nothing: the methods of torch's recorder are templates that no library
/// exports.
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
