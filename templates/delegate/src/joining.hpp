/// A new process group, whose ranks agree in rounds on whether it delegates.
#pragma once

#include <optional>

#include "host/names.hpp"
#include "join/groups.hpp"
#include "join/requirement.hpp"
#include "join/reservation.hpp"
#include "report/report.hpp"
#include "sum/bring_up.hpp"

namespace switchml_delegate {

/// What the groups of a process share while they are made.
struct Claims {
  Reservation reservation;
  Requirement requirement;
  std::atomic<bool> joined{false};  // a group was made
  std::atomic<bool> warned{false};

  // Of the group that has the reservation.
  std::optional<HeldName> name;  // by which child processes know that this one delegates
  struct {
    std::string controller;
    std::string why;
    Library::Clock::time_point time{};
  } unanswered;  // the newest question that took all of its time
};

/// What a new group has of its process.
struct JoiningParts {
  Runtime& runtime;
  Groups& groups;
  Claims& claims;
  Statistics& statistics;
  Report& report;
  ExitHook atExit;
};

/// Throws as Interface::join() does; then the group has still to leave.
void joinRanks(const JoiningParts& parts, const std::vector<const void*>& contexts, int rank,
               int size, std::chrono::milliseconds timeout, const Exchange& exchange);

}  // namespace switchml_delegate
