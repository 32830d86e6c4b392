#include <dlfcn.h>

#include "SwitchMLAllreduce.hpp"
#include "base/quietly.hpp"
#include "base/say.hpp"
#include "host/host_name.hpp"
#include "join/groups.hpp"
#include "join/requirement.hpp"

namespace switchml_delegate {
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
    constexpr const char* kName = "libswitchml_delegate.so";
    // A process has one delegate: that of whichever patch, graft or plugin came first.
    void* handle = dlopen(kName, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle == nullptr) {
      Dl_info here{};
      const bool known = dladdr(reinterpret_cast<void*>(&switchml_delegate::delegate), &here) != 0;
      const std::string own = known && here.dli_fname != nullptr ? here.dli_fname : "";
      handle = dlopen((own.substr(0, own.rfind('/') + 1) + kName).c_str(), RTLD_NOW | RTLD_LOCAL);
    }
    void* const found = handle == nullptr ? nullptr : dlsym(handle, "switchml_delegate_interface");
    if (found == nullptr) {
      const char* const error = dlerror();
      why = printable(error == nullptr ? "it has no interface" : error);
      return;
    }
    delegate =
        reinterpret_cast<decltype(&switchml_delegate_interface)>(found)(SWITCHML_DELEGATE_DIGEST);
    why = delegate == nullptr ? text(kName, " was compiled from other sources") : "";
  }
};

/// Report where there is no memory for one.
const std::string& kNoReport =
    *new std::string(text("{\"problem\": ", inQuotes(kOutOfMemory), ", ", Outcome().json(), "}"));

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

Interface* delegate() noexcept {
  Interface* found = nullptr;
  quietly([&found] { found = opened().delegate; });
  return found;
}

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

}  // namespace switchml_delegate

/// Writes the report as Interface::report() does. Without the library it says why that could not be
/// opened, and what the newest group has agreed on; without memory, that there is none.
extern "C" __attribute__((visibility("default"))) std::size_t switchml_delegate_report(
    char* buffer, std::size_t capacity) noexcept {
  using namespace switchml_delegate;
  std::size_t size = 0;
  const bool written = quietly([&] {
    auto& own = opened();
    if (own.delegate != nullptr) {
      size = own.delegate->report(buffer, capacity);
      return;
    }
    const std::lock_guard<std::mutex> lock(own.mutex);
    size = copyText(text("{\"problem\": ", inQuotes(own.why), ", ", own.group.json(), "}"), buffer,
                    capacity);
  });
  return written ? size : copyText(kNoReport, buffer, capacity);
}
