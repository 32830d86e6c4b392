/// Joining of a rank in a new process group: the steps in which the ranks agree on whether the
/// group delegates.
#pragma once

#include <optional>

#include "base/shutdown.hpp"
#include "host/names.hpp"
#include "join/groups.hpp"
#include "join/reservation.hpp"
#include "report/report.hpp"
#include "requirement.hpp"
#include "say.hpp"
#include "sum/bring_up.hpp"

namespace switchml_delegate {

/// What the groups of a process share while they are made. Any thread that makes a group uses it.
struct JoinState {
  Reservation reservation;
  Requirement requirement{say};
  std::atomic<bool> joined{false};  // a group was made
  std::atomic<bool> warned{false};  // about the configuration of this rank

  // The thread that has the reservation uses these.
  std::optional<HeldName> name;  // by which child processes know that this one delegates
  struct {
    std::string controller;
    std::string reason;
    Library::Clock::time_point time{};
  } unanswered;  // the newest controller that did not answer in time
};

/// Parts of the process that a new group uses.
struct JoiningParts {
  Runtime& runtime;
  Groups& groups;
  JoinState& joinState;
  Statistics& statistics;
  Report& report;
  Shutdown& shutdown;
};

/// Makes the ranks of a new group agree. Throws as Interface::join() does; then the caller ends the
/// group. Called by the thread that makes the group.
void joinRanks(const JoiningParts& parts, const std::vector<const void*>& contexts, int rank,
               int size, std::chrono::milliseconds timeout, const Exchange& exchange);

}  // namespace switchml_delegate
