#include "base/say.hpp"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/descriptor.hpp"
#include "base/quietly.hpp"

namespace switchml_delegate {
namespace {

constexpr std::chrono::milliseconds kLongestLine = std::chrono::seconds(1);

}  // namespace

bool writeWithin(std::chrono::milliseconds limit, int target, const std::string& text) {
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
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const int ready = poll(&entry, 1, left > 0 ? static_cast<int>(left) : 0);
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

void say(const std::string& line) noexcept {
  static std::atomic<bool> stuck{false};
  quietly([&line] {
    const auto limit = stuck ? std::chrono::milliseconds::zero() : kLongestLine;
    stuck = !writeWithin(limit, STDERR_FILENO, "switchml: " + line + "\n");
  });
}

}  // namespace switchml_delegate
