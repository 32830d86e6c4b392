/// Names that processes of this host hold while they live.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/text.hpp"

namespace switchml_delegate {

/// A name that this process holds: a record lock (fcntl(2)) on a file in memory, at an offset that
/// follows from the name. The kernel lists each lock with the process that holds it
/// (proc_locks(5)). So no process can hold a name for another one, keep another one from holding
/// it, or be shown without holding it; a forked child holds none of its parent's; and the end of
/// the process releases all. Processes see those of their own PID namespace.
class HeldName {
 public:
  /// How a process holds a name: other processes may hold it too, or it is for this one alone.
  enum class Kind : std::uint8_t { kWanted, kOwned };

  struct Holder {
    pid_t process;
    std::uint64_t file;  // inode of the file in memory, which no other holder has
    Kind kind;
  };

  HeldName(const std::string& name, Kind kind);

  /// Makes a wanted name owned. False if another process of this user or of root owns it, or wants
  /// it and comes first; it stays wanted then. Waits for a process that wants it and comes later,
  /// which withdraws unless it was first.
  bool own();

  /// All that hold a name, this process among them.
  static std::vector<Holder> holders(const std::string& name);

 private:
  bool hold(Kind kind) const;

  std::string name_;
  Descriptor file_;
  std::uint64_t number_ = 0;  // inode
};

/// The name of a process while one of its groups delegates.
HeldName delegatingName();

/// True if this process descends from one whose group delegates, as a helper of a rank does, which
/// has the rank's environment.
bool descendsFromDelegating();

}  // namespace switchml_delegate
