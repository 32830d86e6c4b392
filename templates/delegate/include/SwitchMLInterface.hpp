/// Interface of the delegate library, libswitchml_delegate.so: what the code in torch sees of it.
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

/// Properties of an allreduce that decide, on every rank alike, whether it is delegated. What may
/// differ between ranks (device, strides) does not belong here.
struct Request {
  Element element;
  Op op;
  std::size_t tensors;  // number of tensors, which are also summed with each other; 1 for one row
  std::uint64_t numel;  // elements of all tensors
};

/// Memory of float32, or of int32, in which a part of an allreduce is summed.
struct Memory {
  void* data;
  std::shared_ptr<void> owner;  // keeps it for as long as the library may write to it
};

/// Steps before and after the sum of each part of an allreduce, from one element to before another.
/// The parts come in their order; where a part is `before`, an earlier one may not be `after` yet.
struct PartCallbacks {
  using Callback = std::function<void(std::int64_t first, std::int64_t last)>;
  Callback before;  // brings the values, if it is set
  Callback after;   // takes the results
  Callback fill{};  // copies the values into the memory, in pieces of a part, unless they are there
  std::function<Memory(std::int64_t first, std::int64_t last)> memory{};  // after `before`
};

/// A message to or from another rank.
struct Transfer {
  /// Returns when it has arrived, or false when it was aborted. Throws where the other rank is
  /// gone, or when the limit has passed.
  std::function<bool(std::chrono::milliseconds limit)> wait;
  std::function<void()> abort;
};

/// Connections of a rank to its neighbours in a ring of all ranks. The data stays as long as the
/// transfer does, and is left alone once that is destroyed.
struct Ring {
  std::function<Transfer(unsigned channel, const void* data, std::size_t bytes)> send;
  std::function<Transfer(unsigned channel, void* data, std::size_t bytes)> receive;
  std::function<void()> close{};  // ends all connections at once; may be empty
};

/// The process group's Store. `get` waits for `key`, and throws when it does not appear within
/// `limit`, which is positive. `has` does not wait. Not each Store is able to `remove` a key.
/// `connect` connects the ranks, all at once. `sources` is a digest of the caller's own sources, if
/// these decide which calls are delegated. Ranks of different digests do not delegate.
struct Exchange {
  std::function<void(const char* key, const std::vector<std::uint8_t>& value)> set;
  std::function<std::vector<std::uint8_t>(const char* key, std::chrono::milliseconds limit)> get;
  std::function<bool(const char* key)> has;
  std::function<void(const char* key)> remove;
  std::function<Ring()> connect;
  const char* sources = "";
};

constexpr std::uint64_t kNoSequence = UINT64_MAX;

/// Beginning of the error of an allreduce that SwitchML has begun, and the reason after abort().
constexpr const char* kAllreduceFailed = "SwitchML allreduce failed: ";
constexpr const char* kGroupAborted = "the process group was aborted";

/// The delegate of a process. A `context` is any of a process group's.
class Interface {
 public:
  /// True while the process group that owns `context` delegates. Lock-free.
  virtual bool delegates(const void* context) const noexcept = 0;

  /// Sequence number of a call of the group that owns `context`, or kNoSequence when the call stays
  /// with Gloo, which is counted. Lock-free.
  virtual std::uint64_t takeSequence(const void* context, const Request& request) noexcept = 0;

  /// Elements of a part of an allreduce of the delegating group, at most, unless it goes in fewer
  /// bits. Lock-free.
  virtual std::uint64_t partNumel() const noexcept = 0;

  /// Replaces values by the sums over all ranks, or by the averages: int32 where that is the
  /// request's type, else float32. Its jobs are submitted when the turn of `sequence` has come.
  /// `limit` is how long all of it may take, once the values of its first part are there and the
  /// calls before it have ended: the timeout of the group where it is not positive, and
  /// SWITCHML_TIMEOUT_MS at most. The wait for them has no limit of its own: each has one, and a
  /// failure or abort() ends it. Throws std::runtime_error when a job failed, or did not finish
  /// within the limit, and what a step throws. The group uses SwitchML no more then, unless that
  /// was the last step.
  virtual void reduce(std::uint64_t sequence, const Request& request,
                      std::chrono::milliseconds limit, const PartCallbacks& callbacks) = 0;

  /// The job of this number will never be submitted: the order over the ranks is lost, so the group
  /// uses SwitchML no more.
  virtual void abandon(std::uint64_t sequence) noexcept = 0;

  /// Lets the ranks of a new process group agree on whether it delegates. Throws
  /// std::runtime_error when a rank is missing, or SWITCHML_REQUIRE is set and the group that
  /// SWITCHML_GROUP names does not.
  virtual void join(const std::vector<const void*>& contexts, int rank, int size,
                    std::chrono::milliseconds timeout, const Exchange& exchange) = 0;

  virtual void leave(const void* context) noexcept = 0;

  /// Fails what the group has in flight. It uses SwitchML no more.
  virtual void abort(const void* context) noexcept = 0;

  /// Writes the report as a NUL-terminated string of at most `capacity` bytes; returns the bytes
  /// that it needs.
  virtual std::size_t report(char* buffer, std::size_t capacity) const = 0;

 protected:
  ~Interface() = default;
};

}  // namespace switchml_delegate

/// Returns the delegate of this process, or null for a caller that was compiled with another digest
/// of the library's sources. The library exports nothing else.
extern "C" __attribute__((visibility("default"))) switchml_delegate::Interface*
switchml_delegate_interface(const char* digest);
