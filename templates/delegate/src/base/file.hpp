/// Files that other users could have written, and files in memory.
#pragma once

#include <sys/stat.h>

#include <string>

#include "descriptor.hpp"

namespace switchml_delegate {

/// A file that is opened once, and checked and read through its descriptor, so no other file can
/// replace it between the check and the read. Opening never waits, neither for the writer of a FIFO
/// nor for the owner of a lease. One thread at a time calls it.
class CheckedFile {
 public:
  explicit CheckedFile(std::string path);

  bool isOpen() const noexcept { return descriptor_.get() >= 0; }

  /// Reason why the file is not open; empty if there is no such file.
  const std::string& error() const noexcept { return error_; }

  /// Returns why a user other than this one and root could have written or replaced the file, and
  /// what to do about it; empty if no such user could. The file must be open.
  std::string writableByOthers() const;

  /// Returns the content. Throws std::runtime_error if the file is not a regular file, has more
  /// than `most` bytes, or cannot be read.
  std::string read(std::size_t most) const;

 private:
  std::string path_;
  std::string error_;
  Descriptor descriptor_;
  struct stat status_ {};
};

/// Returns the first line of a file; empty if it cannot be read.
std::string firstLine(const std::string& path);

/// Returns a path by which this process, and no other one, opens the file of a descriptor.
std::string pathOf(const Descriptor& file);

/// Returns a file in memory, which has no name. Its descriptor is negative on failure, with errno.
Descriptor memoryFile(const char* label);

/// Returns a file in memory with this content. Throws std::runtime_error if it cannot be made.
Descriptor memoryFile(const char* label, const std::string& content);

}  // namespace switchml_delegate
