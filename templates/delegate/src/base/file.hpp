/// Files whose names other users can make, and files in memory.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/descriptor.hpp"

namespace switchml_delegate {

/// A file that is opened first, and checked and read through that descriptor: nobody can put
/// another file in its place in between. Opening never waits, neither for the writer of a FIFO nor
/// for the owner of a lease.
class CheckedFile {
 public:
  explicit CheckedFile(std::string path);

  bool isOpen() const noexcept { return descriptor_.get() >= 0; }

  /// Reason why it is not open; empty if there is no such file.
  const std::string& error() const noexcept { return error_; }

  /// Returns why a user other than this one and root could have written the file, or put it in its
  /// place, and what to do about it. Empty if nobody could. The file must be open.
  std::string writableByOthers() const;

  /// Returns the content. Throws std::runtime_error unless it is a regular file of at most `most`
  /// bytes that can be read.
  std::string read(std::size_t most) const;

 private:
  std::string path_;
  std::string error_;
  Descriptor descriptor_;
  struct stat status_ {};
};

/// Returns the first line of a file; empty if it cannot be read.
std::string firstLine(const std::string& path);

/// Path by which this process, and no other one, opens what the descriptor is open for.
std::string pathOf(const Descriptor& file);

/// Returns a file that has no name. Its descriptor is negative if there is none, with errno.
Descriptor memoryFile(const char* label);

/// Returns a file in memory that has this content. Throws std::runtime_error.
Descriptor memoryFile(const char* label, const std::string& content);

}  // namespace switchml_delegate
