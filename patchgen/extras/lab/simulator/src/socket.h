// File descriptors and sockets: owned, non-blocking, closed in forked children.
#ifndef SWITCHML_SRC_SOCKET_H_
#define SWITCHML_SRC_SOCKET_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace switchml {

using TimePoint = std::chrono::steady_clock::time_point;

// Owns a descriptor. A forked child closes its copy at once; otherwise the other workers would not
// see this process end. One thread uses an Fd at a time.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd);
  Fd(Fd&& other) noexcept;
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { Close(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void Close();

 private:
  int fd_ = -1;
};

// Failure of a connection, with a message for the user.
class LinkError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Endpoint {
  std::string host;
  uint16_t port;

  std::string Text() const;
};

// Listens on each address of the host that this machine has. Port 0 takes a free port. Throws
// LinkError.
std::vector<Fd> Listen(const Endpoint& endpoint);

// The port of a socket. Throws LinkError.
uint16_t LocalPort(const Fd& fd);

// Tries again until `deadline`, because the peer may not listen yet. Throws LinkError.
Fd Connect(const Endpoint& endpoint, TimePoint deadline);

// Accepts a connection; an empty Fd if there is none. The connection breaks within two minutes if
// the peer's machine has vanished.
Fd Accept(const Fd& listener);

enum class Transfer { kDone, kBlocked, kClosed };

struct TransferResult {
  Transfer status;
  size_t bytes;
};

struct Bytes {
  const void* data;
  size_t size;
};

// Non-blocking system calls, which may transfer fewer bytes. SendParts sends the two parts as one
// message, without its first `skip` bytes.
TransferResult SendParts(const Fd& socket, Bytes first, Bytes second, size_t skip);
TransferResult Receive(const Fd& socket, void* data, size_t bytes);

// Waits for `events`, as poll(2). False at the deadline.
bool WaitFor(const Fd& fd, short events, TimePoint deadline);

// Milliseconds until `deadline`, rounded up, for poll(2).
int PollTimeout(TimePoint deadline);

}  // namespace switchml

#endif  // SWITCHML_SRC_SOCKET_H_
