/// What the ranks of a delegating group have agreed on, and what follows for its allreduces.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "SwitchMLInterface.hpp"
#include "join/settings.hpp"
#include "recover/failover.hpp"
#include "recover/heartbeat.hpp"

namespace switchml_delegate {

/// A delegating group. A value never changes, and any thread reads it; Failover and Heartbeat have
/// locks of their own.
struct Delegation {
  std::vector<const void*> contexts;
  Settings settings;
  std::chrono::milliseconds timeout{};  // timeout of the group when it was made
  std::chrono::milliseconds longest{};  // largest limit of a job
  std::uint16_t workers = 0;
  bool marksOverflow = false;
  std::size_t rank = 0;
  std::uint64_t firstSequence = 0;
  std::shared_ptr<Failover> failover;    // null if the group does not fail over
  std::shared_ptr<Heartbeat> heartbeat;  // null if the client library notices a rank that is gone

  bool owns(const void* context) const noexcept;

  /// Number of elements of a delegated allreduce that are sent in fewer bits: its first ones.
  std::uint64_t quantizedNumel(const Request& request) const;

  /// Number of buckets that a job in fewer bits sums.
  std::uint64_t bucketsOfJob() const;

  /// Number of jobs of an allreduce: the scales and the parts in fewer bits, if there are any, and
  /// the parts of the rest.
  std::uint64_t jobsOf(const Request& request) const;
};

}  // namespace switchml_delegate
