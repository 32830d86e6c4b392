/// Lines for the user. C++14, for the delegate library and the loader in torch.
#pragma once

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>

#include "descriptor.hpp"

namespace switchml_delegate {

/// Writes `text` to a file descriptor. Returns false if `limit` passes before all of it is written.
inline bool writeWithin(std::chrono::milliseconds limit, int target, const std::string& text) {
  using Clock = std::chrono::steady_clock;
  struct stat status {};
  fstat(target, &status);
  // An open file description of its own can be non-blocking while those of others are not.
  const auto own = "/proc/self/fd/" + std::to_string(target);
  const Descriptor opened(S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode)
                              ? open(own.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
                              : -1);
  const auto deadline = Clock::now() + limit;
  pollfd entry{opened.get() >= 0 ? opened.get() : target, POLLOUT, 0};
  for (std::size_t written = 0; written < text.size();) {
    const auto left = deadline - Clock::now();
    const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(left);
    const auto wait = whole.count() + (left > whole ? 1 : 0);
    const int ready = poll(&entry, 1, wait > 0 ? static_cast<int>(wait) : 0);
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    if (ready <= 0) {
      return false;
    }
    const auto* const begin = text.data() + written;
    const auto rest = text.size() - written;
    const auto size = entry.fd == target && !S_ISREG(status.st_mode)
                          ? std::min<std::size_t>(rest, PIPE_BUF)  // which a pipe with room takes
                          : rest;
    const auto done = S_ISSOCK(status.st_mode)
                          ? send(target, begin, size, MSG_DONTWAIT | MSG_NOSIGNAL)
                          : write(entry.fd, begin, size);
    if (done < 0 && errno != EAGAIN && errno != EINTR) {
      return false;
    }
    written += done > 0 ? static_cast<std::size_t>(done) : 0;
  }
  return true;
}

/// Writes a line to stderr. Waits for a reader of stderr for a second at most, and then drops the
/// line; no later line waits until one has been written. Drops the line, too, if there is no
/// memory. Any thread may call it, without a mutex.
inline void say(const std::string& line) noexcept {
  constexpr std::chrono::milliseconds kLongestLine = std::chrono::seconds(1);
  static std::atomic<bool> stuck{false};
  try {
    const auto limit = stuck ? std::chrono::milliseconds::zero() : kLongestLine;
    stuck = !writeWithin(limit, STDERR_FILENO, "switchml: " + line + "\n");
  } catch (...) {  // no memory
  }
}

}  // namespace switchml_delegate
