/// Everything that the class of torch's process groups lets a subclass decide, handed on to the
/// group that is wrapped.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "Group.hpp"

namespace switchml_torch {
namespace forwarding {

using namespace c10d;  // the types below are as in the header

/// Hands on the description of a group, which is not virtual, and not in every torch.
template <typename Base>
auto describe(const Base& from, Base& to, int /*preferred*/)
    -> decltype(to.setGroupDesc(from.getGroupDesc())) {
  to.setGroupDesc(from.getGroupDesc());
}

template <typename Base>
void describe(const Base& /*from*/, Base& /*to*/, long /*otherwise*/) {}

class Forwarding : public Group {
 public:
  explicit Forwarding(c10::intrusive_ptr<Group> wrapped)
      : Group(wrapped->getRank(), wrapped->getSize()), wrapped_(std::move(wrapped)) {}

#include "Methods.inc"

  const c10::intrusive_ptr<Group>& wrapped() const { return wrapped_; }

 protected:
  /// A work of the wrapped group, which gets its description first: it has its name by then.
  template <typename Call>
  c10::intrusive_ptr<Work> made(const Call& call) {
    std::call_once(described_, [this] { describe<Group>(*this, *wrapped_, 0); });
    return call();
  }

  /// Called before the wrapped group is shut down, or has other ranks.
  virtual void end() = 0;

  /// Lets the ranks agree on whether the group delegates from here on. Where it is not positive,
  /// the timeout is that of the group.
  virtual void agree(const std::string& key, std::chrono::milliseconds timeout) = 0;

  /// The group that stands before a new one that the wrapped group has made of its ranks. Null for
  /// null. The store is that of the new group.
  virtual c10::intrusive_ptr<Group> adopt(const c10::intrusive_ptr<Store>& store,
                                          c10::intrusive_ptr<Group> child,
                                          std::chrono::milliseconds timeout) = 0;

  /// Null where that is left to the wrapped group. Each target is this rank's part of the sum of
  /// its source.
  virtual c10::intrusive_ptr<Work> reduceScattered(const std::vector<at::Tensor>& targets,
                                                   const std::vector<at::Tensor>& sources,
                                                   const ReduceScatterOptions& options) = 0;

  /// The timeout of what is asked for from here on.
  virtual void limit(std::chrono::milliseconds timeout) = 0;

  /// Called before the wrapped group is aborted.
  virtual void giveUp() = 0;

  c10::intrusive_ptr<Group> wrapped_;

 private:
  std::once_flag described_;
};

}  // namespace forwarding

using forwarding::Forwarding;

}  // namespace switchml_torch
