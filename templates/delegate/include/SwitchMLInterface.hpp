/// Interface of the delegate library, libswitchml_delegate.so, for its loader and codec in torch.
///
/// C++14, and no type whose layout depends on _GLIBCXX_USE_CXX11_ABI: the library may follow the
/// ABI of the SwitchML archive, and its callers that of torch.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace switchml_delegate {

enum class Element : std::uint8_t { kFloat32, kInt32, kBFloat16, kFloat16, kOther };
enum class Op : std::uint8_t { kSum, kAvg, kOther };

/// Properties of an allreduce that decide, on every rank alike, whether it is delegated. Properties
/// that may differ between ranks, such as device and strides, do not belong here.
struct Request {
  Element element;
  Op op;
  std::size_t tensors;  // number of tensors, which are also summed with each other; 1 for one row
  std::uint64_t numel;  // elements of all tensors
};

/// Memory of float32 or int32 elements, in which a part of an allreduce is summed.
struct Memory {
  void* data;
  std::shared_ptr<void> owner;  // keeps the memory for as long as the client library may use it
};

/// Callbacks for the parts of an allreduce: elements [first, last) of its row, in their order. The
/// thread that calls reduce() calls them, for each part:
///
///   1. `before`, if it is set, brings the values.
///   2. `memory` returns the memory in which the part is summed.
///   3. `fill`, if it is set, copies the values into that memory, in pieces of the part.
///   4. The part is summed over the ranks.
///   5. `after` takes the results.
///
/// `before` may be called for the next part before `after` has been called for this one.
struct PartCallbacks {
  using Callback = std::function<void(std::int64_t first, std::int64_t last)>;
  Callback before;
  Callback after;
  Callback fill{};
  std::function<Memory(std::int64_t first, std::int64_t last)> memory{};
};

/// A message to or from another rank.
struct Transfer {
  /// Waits until the message has arrived. Returns false if it was aborted. Throws if the other rank
  /// is gone, or when the limit has passed.
  std::function<bool(std::chrono::milliseconds limit)> wait;
  std::function<void()> abort;
};

/// Connections of a rank to its neighbours in a ring of all ranks. The caller keeps the data as
/// long as the transfer; nothing uses the data after the transfer is destroyed.
struct Ring {
  std::function<Transfer(unsigned channel, const void* data, std::size_t bytes)> send;
  std::function<Transfer(unsigned channel, void* data, std::size_t bytes)> receive;
  std::function<void()> close{};  // closes all connections at once; may be empty
};

/// Access to the other ranks of a process group, for join().
struct Exchange {
  // The group's Store. `get` waits for `key`, and throws if it does not appear within `limit`,
  // which is positive. `has` does not wait. `remove` throws if the Store cannot.
  std::function<void(const char* key, const std::vector<std::uint8_t>& value)> set;
  std::function<std::vector<std::uint8_t>(const char* key, std::chrono::milliseconds limit)> get;
  std::function<bool(const char* key)> has;
  std::function<void(const char* key)> remove;
  /// Connects the ranks; all of them call it.
  std::function<Ring()> connect;
  /// Digest of the caller's own sources, if these decide which calls are delegated. Ranks of
  /// different digests do not delegate.
  const char* sources = "";
};

constexpr std::uint64_t kNoSequence = UINT64_MAX;

/// Beginning of the error of an allreduce that was delegated, and the reason after abort().
constexpr const char* kAllreduceFailed = "SwitchML allreduce failed: ";
constexpr const char* kGroupAborted = "the process group was aborted";

/// The delegate of a process. A `context` is one of a process group's contexts. Any thread may call
/// any function. reduce() and join() wait for other ranks; abort() for up to 2 s for its warning to
/// the successor; leave() for this rank's helper threads.
class Interface {
 public:
  /// True while the process group that owns `context` delegates. Lock-free.
  virtual bool delegates(const void* context) const noexcept = 0;

  /// Takes the sequence number of a call of the group that owns `context`. Returns kNoSequence if
  /// the call falls back to Gloo, and counts that. Called in the thread that makes the call, so
  /// that all ranks number their calls alike. Lock-free.
  virtual std::uint64_t takeSequence(const void* context, const Request& request) noexcept = 0;

  /// Maximum number of elements of a part of an allreduce of the delegating group, unless it is
  /// sent in fewer bits. Lock-free.
  virtual std::uint64_t partNumel() const noexcept = 0;

  /// Replaces values by their sums over all ranks, or by the averages. The values are int32 if the
  /// request's type is, else float32. Submits its jobs when the turn of `sequence` has come.
  ///
  /// `limit` is the maximum time from when the values of the first part are there and the earlier
  /// calls have ended; if it is not positive, the group's timeout. SWITCHML_TIMEOUT_MS bounds both.
  /// The wait for earlier calls has no limit of its own: each has one, and a failure or abort()
  /// ends it. Throws std::runtime_error if a job failed, or did not finish within the limit, and
  /// whatever a callback throws. The group uses SwitchML no more then, unless the last callback
  /// threw.
  virtual void reduce(std::uint64_t sequence, const Request& request,
                      std::chrono::milliseconds limit, const PartCallbacks& callbacks) = 0;

  /// Fails the group: the job of this number will never be submitted, so the ranks' job order no
  /// longer matches.
  virtual void abandon(std::uint64_t sequence) noexcept = 0;

  /// Lets the ranks of a new process group agree on whether it delegates. Throws std::runtime_error
  /// if a rank is missing, or if SWITCHML_REQUIRE is set and the group that SWITCHML_GROUP names
  /// does not delegate.
  virtual void join(const std::vector<const void*>& contexts, int rank, int size,
                    std::chrono::milliseconds timeout, const Exchange& exchange) = 0;

  /// Ends the delegation of the group that owns `context`. Called before its contexts are
  /// destroyed.
  virtual void leave(const void* context) noexcept = 0;

  /// Fails all calls of the group that owns `context`, now and later.
  virtual void abort(const void* context) noexcept = 0;

  /// Writes the report as a NUL-terminated string of at most `capacity` bytes; returns the number
  /// of bytes that it needs.
  virtual std::size_t report(char* buffer, std::size_t capacity) const = 0;

 protected:
  ~Interface() = default;
};

}  // namespace switchml_delegate

/// Returns the delegate of this process, or null for a caller that was compiled with another digest
/// of the delegate library's sources. The library exports nothing else.
extern "C" __attribute__((visibility("default"))) switchml_delegate::Interface*
switchml_delegate_interface(const char* digest);
