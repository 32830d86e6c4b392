#include "sum/runtime.hpp"

#include <stdexcept>
#include <utility>

#include "base/quietly.hpp"
#include "base/text.hpp"
#include "say.hpp"

namespace switchml_delegate {

Runtime::Runtime(const Runtime* parent)
    : library(parent == nullptr ? nullptr : &parent->library),
      state(parent == nullptr ? nullptr : &parent->state),
      waited(parent == nullptr ? 0 : parent->waited.load()),
      group_(parent == nullptr ? nullptr : parent->group()) {}

const Delegation* Runtime::groupOf(const void* context) const noexcept {
  const auto* const found = group();
  return found != nullptr && found->owns(context) ? found : nullptr;
}

void Runtime::begin(Delegation group) {
  groups_.set(std::move(group));
  group_.store(&groups_.get(), std::memory_order_release);
}

void Runtime::disown(const std::vector<const void*>& contexts) noexcept {
  for (const auto* const context : contexts) {
    if (const auto* const inherited = groupOf(context); inherited != nullptr) {
      end(inherited);
    }
  }
}

bool Runtime::end(const Delegation* group) noexcept {
  return group_.compare_exchange_strong(group, nullptr);
}

void Runtime::fail(const std::string& reason, std::uint64_t epoch) noexcept {
  if (epoch != library.epoch()) {
    return;
  }
  if (disable(reason, epoch, &Failover::abort)) {
    quietly([&] {
      const auto counted = library.packets().summary();
      say(text("error: ", reason, counted.empty() ? "" : " (" + counted + ")",
               "; this rank no longer uses SwitchML"));
    });
  }
}

void Runtime::abandon(std::uint64_t sequence) noexcept {
  const auto epoch = library.epoch();  // of this group, or of one before it
  const auto* const found = group();
  if (found != nullptr && sequence >= found->firstSequence) {
    fail(textOrOutOfMemory([sequence] {
           return text("allreduce number ", sequence, " was dropped before it was submitted");
         }),
         epoch);
  }
}

void Runtime::suspend(const std::string& reason) noexcept {
  state.suspend(reason);
  library.stop(library.epoch());
}

void Runtime::close(const std::string& reason) noexcept {
  disable(reason, library.epoch(), &Failover::close);
  if (const auto* const found = group(); found != nullptr && found->heartbeat) {
    found->heartbeat->close();
  }
}

void Runtime::throwIfBroken() const {
  if (state.broken()) {
    throw std::runtime_error(kAllreduceFailed + state.get().reason);
  }
}

void Runtime::raise(const std::string& reason, std::uint64_t epoch) {
  fail(reason, epoch);
  throwIfBroken();
  throw std::runtime_error(kAllreduceFailed + reason);  // of an earlier group
}

bool Runtime::disable(const std::string& reason, std::uint64_t epoch,
                      void (Failover::*end)(const std::string&)) noexcept {
  const bool first = state.fail(reason);
  const auto* const found = group();
  if (found != nullptr && found->failover && !library.lost()) {
    ((*found->failover).*end)(reason);
  }
  if (first) {
    library.stop(epoch);
    order.wake();
  }
  return first;
}

}  // namespace switchml_delegate
