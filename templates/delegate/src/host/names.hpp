/// Names that processes of this host hold until they end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "descriptor.hpp"

namespace switchml_delegate {

/// A name that this process holds: a record lock (fcntl(2)) on a file in memory, at an offset that
/// follows from the name. The kernel lists each lock with the process that holds it
/// (proc_locks(5)). So a process cannot hold a name for another process, keep another process from
/// holding it, or be listed without holding it. A forked child holds no name of its parent. The end
/// of a process releases its names. Processes see the names within their PID namespace.
///
/// One thread at a time calls it: the one that makes a group.
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

  /// Makes a wanted name owned. Of several processes that want a name, the one whose file has the
  /// lowest inode owns it:
  ///
  /// 1. If another process owns the name, or wants it with a lower inode, returns false. The name
  ///    stays wanted, until it is destroyed. Processes of users other than this one and root do not
  ///    count.
  /// 2. If another process wants it with a higher inode, waits until that process withdraws, for a
  ///    second at most.
  bool own();

  /// Returns all holders of a name; this process may be among them.
  static std::vector<Holder> holders(const std::string& name);

 private:
  bool hold(Kind kind) const;

  std::string name_;
  Descriptor file_;
  std::uint64_t inode_ = 0;
};

/// Returns the name that a process holds while one of its groups delegates.
HeldName delegatingName();

/// Returns whether an ancestor of this process has a group that delegates. Then this process is a
/// helper of a rank, with the rank's environment.
bool descendsFromDelegating();

}  // namespace switchml_delegate
