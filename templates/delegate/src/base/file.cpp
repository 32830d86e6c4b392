#include "base/file.hpp"

#include <fcntl.h>
#include <limits.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "base/text.hpp"

namespace switchml_delegate {
namespace {

std::string directoryOf(const std::string& file) {
  const auto slash = file.rfind('/');
  return slash == std::string::npos ? "." : file.substr(0, std::max<std::size_t>(slash, 1));
}

/// Returns the path of the opened file, without symbolic links.
std::string openedPath(const Descriptor& file) {
  std::array<char, PATH_MAX> out{};
  const auto size = readlink(pathOf(file).c_str(), out.data(), out.size());
  return size > 0 ? std::string(out.data(), static_cast<std::size_t>(size)) : "";
}

std::string writableByOthers(const std::string& path, const struct stat& status) {
  if (status.st_uid != geteuid() && status.st_uid != 0) {
    return text(path, " belongs to user ", status.st_uid, "; name the file in SWITCHML_CONFIG");
  }
  return (status.st_mode & (S_IWGRP | S_IWOTH)) == 0
             ? ""
             : text(path, " can be written by others; run `chmod go-w ", path,
                    "`, or name the file in SWITCHML_CONFIG");
}

}  // namespace

CheckedFile::CheckedFile(std::string path)
    : path_(std::move(path)),
      descriptor_(open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) {
  if (!isOpen() && errno != ENOENT) {
    error_ = std::strerror(errno);
  } else if (isOpen()) {
    fstat(descriptor_.get(), &status_);  // cannot fail for an open file
  }
}

std::string CheckedFile::writableByOthers() const {
  const auto opened = openedPath(descriptor_);
  for (const auto& directory : {directoryOf(path_), directoryOf(opened)}) {
    struct stat status {};
    const auto reason = stat(directory.c_str(), &status) != 0
                            ? text(directory, ": ", std::strerror(errno))
                            : switchml_delegate::writableByOthers(directory, status);
    if (!reason.empty()) {
      return reason;
    }
  }
  return switchml_delegate::writableByOthers(opened, status_);
}

std::string CheckedFile::read(std::size_t most) const {
  if (!S_ISREG(status_.st_mode)) {
    throw std::runtime_error("not a regular file");
  }
  std::string out;
  std::array<char, 1U << 16U> piece;
  for (;;) {
    const auto size = ::read(descriptor_.get(), piece.data(), piece.size());
    if (size == 0) {
      return out;
    }
    if (size < 0 && errno != EINTR) {
      throw std::runtime_error(std::strerror(errno));
    }
    out.append(piece.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    if (out.size() > most) {
      throw std::runtime_error(text("larger than ", most, " bytes"));
    }
  }
}

std::string firstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string pathOf(const Descriptor& file) { return text("/proc/self/fd/", file.get()); }

Descriptor memoryFile(const char* label) {
#ifdef SYS_memfd_create
  constexpr long kCreate = SYS_memfd_create;
#else  // the headers are those of a kernel before 3.17
  constexpr long kCreate = 319;  // of x86-64
#endif
  return Descriptor(static_cast<int>(syscall(kCreate, label, /*MFD_CLOEXEC*/ 1U)));
}

Descriptor memoryFile(const char* label, const std::string& content) {
  auto file = memoryFile(label);
  for (std::size_t written = 0; written < content.size();) {
    const auto size = write(file.get(), content.data() + written, content.size() - written);
    if (size < 0 && errno != EINTR) {
      throw std::runtime_error(text("a file in memory cannot be made: ", std::strerror(errno)));
    }
    written += static_cast<std::size_t>(std::max<ssize_t>(size, 0));
  }
  return file;
}

}  // namespace switchml_delegate
