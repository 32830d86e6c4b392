/// Delegation of allreduce to SwitchML: what ProcessGroupGloo.cpp sees.
///
/// The calls from c10d are templates: no c10 or torch header meets those of the delegate library.
#pragma once

#include <type_traits>
#include <utility>

#include "SwitchMLCodec.hpp"
#include "SwitchMLInterface.hpp"

namespace switchml_delegate {

/// The delegate of this process. The first call opens the delegate library; null if it cannot be
/// opened. Any thread calls it.
__attribute__((visibility("default"))) Interface* delegate() noexcept;

/// Lets the ranks of a new process group agree, as Interface::join() does. A rank without the
/// delegate library refuses, and all ranks fall back to Gloo.
__attribute__((visibility("default"))) void agree(const std::vector<const void*>& contexts,
                                                  int rank, int size,
                                                  std::chrono::milliseconds timeout,
                                                  const Exchange& exchange);

/// Ring over the connections of a Gloo context that nothing else uses: Gloo closes all connections
/// when a message is late, and a message that was aborted holds up those behind it.
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

/// `connect`: makes the ring of the ranks. `sources`: as in Exchange.
template <typename Store, typename Context>
void join(Store& store, const std::vector<std::shared_ptr<Context>>& contexts, int rank, int size,
          std::chrono::milliseconds timeout, std::function<Ring()> connect,
          const char* sources = "") {
  Exchange exchange;
  exchange.sources = sources;
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
  agree(keys, rank, size, timeout, exchange);
}

template <typename Context>
void leave(const std::vector<std::shared_ptr<Context>>& contexts) {
  if (delegate() != nullptr) {
    delegate()->leave(contexts.empty() ? nullptr : contexts[0].get());
  }
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

/// One allreduce of a process group. It is made with its work, on the thread of the caller, and
/// takes a sequence number then; reduce() runs on a thread of the group.
class Allreduce {
 public:
  /// Several tensors take no number before coalesce(): unless that is called, they are summed with
  /// each other as well, and the call falls back to Gloo.
  template <typename Context, typename Tensor, typename ReduceOp>
  Allreduce(const Context* context, const std::vector<Tensor>& inputs, const ReduceOp& op)
      : context_(context),
        request_{elementOf(inputs), opOf(op), inputs.size(),
                 static_cast<std::uint64_t>(numelOf(inputs))} {
    if (inputs.size() == 1) {
      close(1);
    }
  }

  ~Allreduce() {
    close(request_.tensors);
    drop();
  }

  Allreduce(const Allreduce&) = delete;
  Allreduce& operator=(const Allreduce&) = delete;

  /// False if the call falls back to Gloo.
  explicit operator bool() const noexcept { return sequence_ != kNoSequence; }

  /// Sets the limit of the call. Without it the limit is the timeout that the group was made with.
  void limit(std::chrono::milliseconds limit) noexcept { limit_ = limit; }

  /// Makes the tensors one row of elements. Called where the work is made. False if the call falls
  /// back to Gloo.
  bool coalesce() noexcept {
    close(1);
    return sequence_ != kNoSequence;
  }

  /// Replaces `tensors`, which are on the CPU, by their sums over all ranks, or by the averages.
  /// False if the call falls back to Gloo.
  template <typename Tensor>
  bool allreduce(std::vector<Tensor>& tensors) {
    close(request_.tensors);
    if (sequence_ == kNoSequence) {
      return false;
    }
    const RowLayout<Tensor> row(tensors);
    reduce(row, row);
    return true;
  }

  /// Sums or averages the row of `sources` over all ranks, and copies it to `targets`. All tensors
  /// are on the CPU. The sources stay as they are, unless they are targets.
  template <typename Tensor>
  void reduce(const RowLayout<Tensor>& sources, const RowLayout<Tensor>& targets,
              const PartCallbacks& more = {}) {
    using Type = typename std::decay<decltype(sources.first().scalar_type())>::type;
    try {
      Row<Tensor, Type> row(sources, targets,
                            request_.element == Element::kInt32 ? Type::Int : Type::Float);
      PartCallbacks callbacks;
      callbacks.before = more.before;
      callbacks.memory = [&row](std::int64_t first, std::int64_t last) {
        auto values = row.allocate(first, last);
        return Memory{values->data_ptr(), std::move(values)};
      };
      if (!row.isInPlace()) {
        callbacks.fill = [&row](std::int64_t first, std::int64_t last) { row.fill(first, last); };
      }
      callbacks.after = [&](std::int64_t first, std::int64_t last) {
        row.copyOut(first, last);
        if (more.after) {
          more.after(first, last);
        }
      };
      delegate()->reduce(std::exchange(sequence_, kNoSequence), request_, limit_, callbacks);
    } catch (...) {
      drop();
      throw;
    }
  }

 private:
  /// Takes the number, once. Several tensors that are not one row fall back to Gloo, and are
  /// counted.
  void close(std::size_t tensors) noexcept {
    if (open_ && delegate() != nullptr) {
      request_.tensors = tensors;
      sequence_ = delegate()->takeSequence(context_, request_);
    }
    open_ = false;
  }

  void drop() noexcept {
    if (sequence_ != kNoSequence) {
      delegate()->abandon(std::exchange(sequence_, kNoSequence));
    }
  }

  const void* const context_;
  Request request_;
  std::uint64_t sequence_ = kNoSequence;
  std::chrono::milliseconds limit_{0};
  bool open_ = true;  // no number has been taken yet
};

}  // namespace switchml_delegate
