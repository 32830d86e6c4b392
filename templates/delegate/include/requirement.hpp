/// What SWITCHML_REQUIRE promises of a process.
///
/// The delegate library and the loader in torch share this header: a process without the library
/// keeps the same promise. C++14.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "record.hpp"

namespace switchml_delegate {

/// Prints a warning when the process exits if SWITCHML_REQUIRE is set and SWITCHML_GROUP has left
/// all groups of the process to Gloo. Any other group meets the requirement, or raises.
///
/// Any thread that makes a group calls note(). Has no lock: atomic members. Never destroyed, as it
/// is used when the process exits. A forked child has made none of its parent's groups.
class Requirement {
 public:
  /// `print` writes a line for the user.
  explicit Requirement(void (*print)(const std::string& line)) : print_(print) {}

  /// Notes what the ranks of a new group have decided. `required`: SWITCHML_REQUIRE is set.
  void note(int rank, bool required, const Record& decision) {
    if (decision.kind != Ability::kLater) {
      settled_ = true;
    } else if (required && process_.exchange(getpid()) == 0) {
      rank_ = rank;
      firstDelegatingGroup_ = decision.firstDelegatingGroup;
      on_exit([](int, void* own) { static_cast<const Requirement*>(own)->end(); }, this);
    }
  }

 private:
  void end() const {
    if (!settled_ && process_ == getpid()) {
      print_(warningText(rank_,
                         "SWITCHML_REQUIRE is set, but no process group of this process used "
                         "SwitchML; SWITCHML_GROUP=" +
                             std::to_string(firstDelegatingGroup_) + " left them all to Gloo"));
    }
  }

  void (*const print_)(const std::string& line);
  std::atomic<bool> settled_{false};
  std::atomic<pid_t> process_{0};  // that made the first group which was left to Gloo
  std::atomic<int> rank_{0};
  std::atomic<std::uint64_t> firstDelegatingGroup_{0};
};

}  // namespace switchml_delegate
