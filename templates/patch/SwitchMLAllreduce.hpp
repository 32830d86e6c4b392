/// Delegation of allreduce to the SwitchML client library: what ProcessGroupGloo.cpp sees.
///
/// The interface is C++14 and uses no type whose layout depends on _GLIBCXX_USE_CXX11_ABI, so that
/// SwitchMLAllreduce.cpp may follow the ABI of the SwitchML archive and this file the one of torch.
/// The glue to c10d is templates: no c10 or torch header meets the SwitchML headers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "SwitchMLCodec.hpp"

namespace switchml_torch {

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
struct Steps {
  using Step = std::function<void(std::int64_t first, std::int64_t last)>;
  Step before;  // brings the values, if it is set
  Step after;   // takes the results
  Step fill{};  // copies the values into the memory, in pieces of a part, unless they are there
  std::function<Memory(std::int64_t first, std::int64_t last)> place{};  // after `before`
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
/// `connect` connects the ranks, all at once.
struct Exchange {
  std::function<void(const char* key, const std::vector<std::uint8_t>& value)> set;
  std::function<std::vector<std::uint8_t>(const char* key, std::chrono::milliseconds limit)> get;
  std::function<bool(const char* key)> has;
  std::function<void(const char* key)> remove;
  std::function<Ring()> connect;
};

constexpr std::uint64_t kNoTicket = UINT64_MAX;

/// True while the process group that owns `context` delegates. Lock-free.
bool delegates(const void* context) noexcept;

/// A ticket for a call of the group that owns `context`, or kNoTicket when the call stays with
/// Gloo, which is counted. Lock-free where the group delegates.
std::uint64_t takeTicket(const void* context, const Request& request) noexcept;

/// Elements of a part of an allreduce of the delegating group, at most, unless it goes in fewer
/// bits. Lock-free.
std::uint64_t partNumel() noexcept;

/// Replaces values by the sums over all ranks, or by the averages: int32 where that is the
/// request's type, else float32. Its jobs are submitted when the ticket's turn has come. `limit` is
/// how long all of it may take, once the values of its first part are there and the calls before it
/// have ended: the timeout of the group where it is not positive, and SWITCHML_TIMEOUT_MS at most.
/// The wait for them has no limit of its own: each has one, and a failure or abort() ends it.
/// Throws std::runtime_error when a job failed, or did not finish within the limit, and what a step
/// throws. The group uses SwitchML no more then, unless that was the last step.
void reduce(std::uint64_t ticket, const Request& request, std::chrono::milliseconds limit,
            const Steps& steps);

/// A ticket that will never be submitted: the order over the ranks is lost, so the group uses
/// SwitchML no more.
void abandon(std::uint64_t ticket) noexcept;

/// Lets the ranks of a new process group agree on whether it delegates.
/// Throws std::runtime_error when a rank is missing, or SWITCHML_REQUIRE is set and it does not.
void join(const std::vector<const void*>& contexts, int rank, int size,
          std::chrono::milliseconds timeout, const Exchange& exchange);

/// `context` is any of the group's.
void leave(const void* context) noexcept;

/// Fails what the group has in flight. It uses SwitchML no more.
void abort(const void* context) noexcept;

/// Ring over the connections of a Gloo context that nothing else uses: where a message is late Gloo
/// closes all of them, and one that was aborted holds up those behind it.
template <typename Context>
Ring ringOf(const std::shared_ptr<Context>& context, int rank, int size) {
  using Buffer = typename std::decay<decltype(*context->createUnboundBuffer(nullptr, 0))>::type;
  Ring ring;
  ring.send = [=](unsigned channel, const void* data, std::size_t bytes) {
    std::shared_ptr<Buffer> buffer = context->createUnboundBuffer(const_cast<void*>(data), bytes);
    buffer->send((rank + 1) % size, channel);
    return Transfer{[buffer](std::chrono::milliseconds limit) { return buffer->waitSend(limit); },
                    [buffer] { buffer->abortWaitSend(); }};
  };
  ring.receive = [=](unsigned channel, void* data, std::size_t bytes) {
    std::shared_ptr<Buffer> buffer = context->createUnboundBuffer(data, bytes);
    buffer->recv((rank + size - 1) % size, channel);
    return Transfer{[buffer](std::chrono::milliseconds limit) { return buffer->waitRecv(limit); },
                    [buffer] { buffer->abortWaitRecv(); }};
  };
  ring.close = [context] { context->closeConnections(); };
  return ring;
}

/// `connect`: makes the ring of the ranks.
template <typename Store, typename Context>
void join(Store& store, const std::vector<std::shared_ptr<Context>>& contexts, int rank, int size,
          std::chrono::milliseconds timeout, std::function<Ring()> connect) {
  Exchange exchange;
  exchange.connect = std::move(connect);
  exchange.set = [&store](const char* key, const std::vector<std::uint8_t>& value) {
    store.set(key, value);
  };
  exchange.get = [&store](const char* key, std::chrono::milliseconds limit) {
    store.wait({key}, limit);
    return store.get(key);
  };
  exchange.has = [&store](const char* key) { return store.check({key}); };
  exchange.remove = [&store](const char* key) { store.deleteKey(key); };
  std::vector<const void*> keys;
  for (const auto& context : contexts) {
    keys.push_back(context.get());
  }
  join(keys, rank, size, timeout, exchange);
}

template <typename Context>
void leave(const std::vector<std::shared_ptr<Context>>& contexts) {
  leave(contexts.empty() ? nullptr : contexts[0].get());
}

template <typename Context>
void abort(const std::vector<std::shared_ptr<Context>>& contexts) {
  abort(contexts.empty() ? nullptr : contexts[0].get());
}

/// ReduceOp::AVG, which not every torch has.
template <typename ReduceOp, typename = void>
struct Average {
  static bool is(const ReduceOp&) { return false; }
};

template <typename ReduceOp>
struct Average<ReduceOp, decltype(static_cast<void>(ReduceOp::AVG))> {
  static bool is(const ReduceOp& op) { return op == ReduceOp::AVG; }
};

template <typename ReduceOp>
Op opOf(const ReduceOp& op) {
  return op == ReduceOp::SUM ? Op::kSum : Average<ReduceOp>::is(op) ? Op::kAvg : Op::kOther;
}

template <typename Tensor>
Element elementOf(const std::vector<Tensor>& tensors) {
  const auto type = tensors[0].scalar_type();
  using Type = typename std::decay<decltype(type)>::type;
  for (const auto& tensor : tensors) {
    if (tensor.scalar_type() != type) {
      return Element::kOther;
    }
  }
  return type == Type::Float      ? Element::kFloat32
         : type == Type::Int      ? Element::kInt32
         : type == Type::BFloat16 ? Element::kBFloat16
         : type == Type::Half     ? Element::kFloat16
                                  : Element::kOther;
}

/// The place of one allreduce in the order of submission, taken when its work is made.
class Ticket {
 public:
  /// Several tensors have no place before they are `coalesce`d: without that, they are summed with
  /// each other as well, which is left to Gloo.
  template <typename Context, typename Tensor, typename ReduceOp>
  Ticket(const Context* context, const std::vector<Tensor>& inputs, const ReduceOp& op)
      : context_(context),
        request_{elementOf(inputs), opOf(op), inputs.size(),
                 static_cast<std::uint64_t>(numelOf(inputs))},
        open_(inputs.size() != 1) {
    if (!open_) {
      number_ = takeTicket(context_, request_);
    }
  }

  ~Ticket() {
    close();
    drop();
  }

  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  /// False when the call is left to Gloo.
  explicit operator bool() const noexcept { return number_ != kNoTicket; }

  /// Sets the limit of the job, where that is not the timeout of the group when it was made.
  void limit(std::chrono::milliseconds limit) noexcept { limit_ = limit; }

  /// Says that the tensors are one row of elements. Called where the work is made. False when the
  /// call is left to Gloo.
  bool coalesce() noexcept {
    if (open_) {
      open_ = false;
      request_.tensors = 1;
      number_ = takeTicket(context_, request_);
    }
    return number_ != kNoTicket;
  }

  /// Replaces `tensors` (on the CPU) by their sums over all ranks, or by the averages; false when
  /// that is left to Gloo.
  template <typename Tensor>
  bool allreduce(std::vector<Tensor>& tensors) {
    close();
    if (number_ == kNoTicket) {
      return false;
    }
    const Parts<Tensor> parts(tensors);
    reduce(parts, parts);
    return true;
  }

  /// Gives `targets` their parts of the row of the sums or averages of `sources`, of which all are
  /// on the CPU. The sources stay as they are, unless they are targets.
  template <typename Tensor>
  void reduce(const Parts<Tensor>& sources, const Parts<Tensor>& targets, const Steps& more = {}) {
    using Type = typename std::decay<decltype(sources.first().scalar_type())>::type;
    try {
      Row<Tensor, Type> row(sources, targets,
                            request_.element == Element::kInt32 ? Type::Int : Type::Float);
      Steps steps;
      steps.before = more.before;
      steps.place = [&row](std::int64_t first, std::int64_t last) {
        auto values = row.place(first, last);
        return Memory{values->data_ptr(), std::move(values)};
      };
      if (!row.isInPlace()) {
        steps.fill = [&row](std::int64_t first, std::int64_t last) { row.fill(first, last); };
      }
      steps.after = [&](std::int64_t first, std::int64_t last) {
        row.giveBack(first, last);
        if (more.after) {
          more.after(first, last);
        }
      };
      const auto number = number_;
      number_ = kNoTicket;
      switchml_torch::reduce(number, request_, limit_, steps);
    } catch (...) {
      drop();
      throw;
    }
  }

 private:
  /// Several tensors that are not one row are left to Gloo, and counted.
  void close() noexcept {
    if (open_) {
      open_ = false;
      takeTicket(context_, request_);
    }
  }

  void drop() noexcept {
    if (number_ != kNoTicket) {
      abandon(number_);
      number_ = kNoTicket;
    }
  }

  const void* const context_;
  Request request_;
  std::uint64_t number_ = kNoTicket;
  std::chrono::milliseconds limit_{0};
  bool open_;  // whether the tensors are one row is not known yet
};

}  // namespace switchml_torch
