/// What SWITCHML_REQUIRE promises of a process.
///
/// Header only: the loader in torch keeps it where there is no delegate library.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <atomic>

#include "join/outcome.hpp"

namespace switchml_delegate {

/// Says when the process exits that SWITCHML_REQUIRE is set and SWITCHML_GROUP has left all of its
/// groups to Gloo. Any other group meets the requirement, or raises. Never destroyed. A forked
/// child has made none of its parent's groups.
class Requirement {
 public:
  /// Called with what the ranks of each new group have agreed on.
  void note(int rank, const Message& all) {
    if (all.kind != Ability::kLater) {
      settled_ = true;
    } else if (isSet("SWITCHML_REQUIRE") && process_.exchange(getpid()) == 0) {
      rank_ = rank;
      group_ = all.group;
      on_exit([](int, void* own) { static_cast<const Requirement*>(own)->end(); }, this);
    }
  }

 private:
  void end() const {
    if (!settled_ && process_ == getpid()) {
      warnRank(rank_, text("SWITCHML_REQUIRE is set, but no process group of this process used "
                           "SwitchML; SWITCHML_GROUP=",
                           group_, " left them all to Gloo"));
    }
  }

  std::atomic<bool> settled_{false};
  std::atomic<pid_t> process_{0};  // that made the first group which was left to Gloo
  std::atomic<int> rank_{0};
  std::atomic<std::uint64_t> group_{0};
};

}  // namespace switchml_delegate
