#include <dlfcn.h>

#include "SwitchMLAllreduce.hpp"
#include "base/SwitchMLHost.hpp"
#include "base/say.hpp"
#include "join/SwitchMLGroups.hpp"
#include "join/requirement.hpp"

namespace switchml_torch {
namespace {

/// The delegate library of this process, and what its groups have agreed on without it.
struct Opened {
  Interface* delegate = nullptr;
  std::string why;  // it could not be opened
  GroupNumbers numbers;
  Requirement requirement;
  std::mutex mutex;
  Outcome group;  // the newest

  Opened() {
    constexpr const char* kName = "libswitchml_torch.so";
    // A process has one delegate: that of whichever patch, graft or plugin came first.
    void* handle = dlopen(kName, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle == nullptr) {
      Dl_info here{};
      dladdr(reinterpret_cast<void*>(&switchml_torch::delegate), &here);
      const std::string own = here.dli_fname;
      handle = dlopen((own.substr(0, own.rfind('/') + 1) + kName).c_str(), RTLD_NOW | RTLD_LOCAL);
    }
    void* const found = handle == nullptr ? nullptr : dlsym(handle, "switchml_torch_interface");
    if (found == nullptr) {
      why = printable(dlerror());
      return;
    }
    delegate = reinterpret_cast<decltype(&switchml_torch_interface)>(found)(SWITCHML_TORCH_DIGEST);
    why = delegate == nullptr ? text(kName, " was compiled from other sources") : "";
  }
};

/// Never destroyed: threads may outlive the destruction of statics.
Opened& opened() {
  static auto& library = *new Opened;
  return library;
}

/// What a rank without the library answers to the others of a new group.
Capabilities without(Opened& own, int size) {
  Settings settings;
  static_cast<void>(settings.read());  // for its SWITCHML_GROUP
  const auto number = own.numbers.next(size);
  auto out = number < settings.group ? Capabilities::later(number, size, settings.group)
                                     : Capabilities::unable(own.why);
  out.group = settings.group;
  return out;
}

}  // namespace

Interface* delegate() noexcept { return opened().delegate; }

void agree(const std::vector<const void*>& contexts, int rank, int size,
           std::chrono::milliseconds timeout, const Exchange& exchange) {
  auto& own = opened();
  if (own.delegate != nullptr) {
    return own.delegate->join(contexts, rank, size, timeout, exchange);
  }
  const auto all = Negotiation<SteadyClock>(exchange, rank, size, timeout, hostName(), say)
                       .round(Step::kCapabilities, without(own, size));
  Outcome group;
  group.size = size;
  group.step = Step::kCapabilities;
  group.stayWithGloo(all.words);
  std::unique_lock<std::mutex> lock(own.mutex);
  const bool first = own.group.size == 0;
  own.group = group;
  lock.unlock();
  if (first) {
    warnRank(rank, text(own.why, "; ", kStaysWithGloo));
  }
  if (rank == 0) {
    say(group.line());
  }
  own.requirement.note(rank, all);
  if (all.forbidsGloo()) {
    throw std::runtime_error(group.refusal());
  }
}

}  // namespace switchml_torch

/// Writes the report as Interface::report() does. Without the library it says why that could not be
/// opened, and what the newest group has agreed on.
extern "C" __attribute__((visibility("default"))) std::size_t switchml_torch_report(
    char* buffer, std::size_t capacity) {
  auto& own = switchml_torch::opened();
  if (own.delegate != nullptr) {
    return own.delegate->report(buffer, capacity);
  }
  const std::lock_guard<std::mutex> lock(own.mutex);
  const auto report = switchml_torch::text("{\"problem\": ", switchml_torch::inQuotes(own.why),
                                           ", ", own.group.json(), "}");
  return switchml_torch::copyText(report, buffer, capacity);
}
