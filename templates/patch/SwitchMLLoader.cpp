/// Opens the delegate library, libswitchml_delegate.so, for the first process group of a process.
///
/// If the library cannot be opened, this rank still answers the other ranks of each new group: it
/// writes one record, that it cannot delegate, and follows rank 0's decision. C++14.
#include <dlfcn.h>

#include <exception>

#include "SwitchMLAllreduce.hpp"
#include "environment.hpp"
#include "host_name.hpp"
#include "record.hpp"
#include "record_store.hpp"
#include "requirement.hpp"
#include "say.hpp"

namespace switchml_delegate {
namespace loader {
namespace {

using std::chrono::milliseconds;

constexpr const char* kName = "libswitchml_delegate.so";

/// SWITCHML_GROUP; 1 if it is unset or not a number.
std::uint64_t firstDelegatingGroup() {
  std::uint64_t out = 1;
  static_cast<void>(readNumber("SWITCHML_GROUP", "", out));
  return out;
}

/// Report of a process without the delegate library. switchml.py adds the other keys.
std::string report(const std::string& problem, int size, const std::string& reason) {
  const auto decision = size == 0 ? "" : glooDecision(reason);
  return "{\"problem\": " + inQuotes(problem) +
         ", \"group\": " + inQuotes(size == 0 ? "" : groupLine(size, decision)) +
         ", \"world_size\": " + std::to_string(size) + ", \"decision\": " + inQuotes(decision) +
         ", \"reason\": " + inQuotes(reason) +
         ", \"step\": " + inQuotes(size == 0 ? "" : kFirstStep) + ", \"passed\": []}";
}

/// Report if there is no memory for another one.
const std::string& kNoMemory = *new std::string(report("out of memory", 0, ""));

/// The first step of the agreement (join/agreement.hpp) for a rank that cannot delegate. Its
/// refusal ends the agreement for all ranks. The thread that makes the group calls it, once.
class Refusal {
 public:
  Refusal(const Exchange& exchange, int rank, int size, milliseconds timeout, Record own,
          RecordGathering::Notify notify, const AgreementClock& clock)
      : store_(exchange),
        rank_(rank),
        size_(size),
        timeout_(std::min<milliseconds>(timeout, std::chrono::hours(24 * 365))),
        own_(std::move(own)),
        notify_(std::move(notify)),
        clock_(clock) {}

  /// Returns rank 0's decision. Throws std::runtime_error if a rank is missing.
  Record decision() {
    own_.nonces = {randomNonce()};
    const auto out = rank_ == 0 ? lead() : follow();
    if (out.kind == Ability::kMissing) {
      throw std::runtime_error(out.detail);
    }
    return out;
  }

 private:
  /// Reads the records of the other ranks, and writes the decision, as rank 0.
  Record lead() {
    const auto call = callName(own_.nonces[0]);
    store_.makeCall(call, own_.sources, left());
    const auto found = RecordGathering(store_, clock_, notify_)
                           .run(call, kFirstStep, own_, size_, begun_ + timeout_);
    const auto noTerms = [](const std::string&, const std::string&) { return std::string(); };
    const auto out = found.orMissing(decide(found.all, noTerms));
    store_.set(keyOf(call, kFirstStep), out.write());
    store_.remove(recordKeys(call, kFirstStep, size_));
    return out;
  }

  /// Writes the record, and reads rank 0's decision, as another rank.
  Record follow() {
    try {
      for (auto key = std::string(kCallKey);;) {
        const auto call = store_.readCall(key, left() + kDecisionGrace);
        begun_ = clock_.now();
        store_.set(keyOf(call, kFirstStep, rank_), own_.write());
        const auto value = store_.get(keyOf(call, kFirstStep), left() + kDecisionGrace);
        const auto out = Record::read(value, size_);
        if (out.isFor(rank_, own_.nonces[0], call)) {
          return out;
        }
        key = keyOf(call, kNextCall);
      }
    } catch (const std::exception& error) {
      throw std::runtime_error(missingText({0}, size_, error.what()));
    }
  }

  /// Time that this rank may still wait for the others.
  milliseconds left() const { return clock_.left(begun_ + timeout_); }

  RecordStore store_;
  const int rank_;
  const int size_;
  const milliseconds timeout_;
  Record own_;
  const RecordGathering::Notify notify_;
  const AgreementClock& clock_;
  AgreementClock::Time begun_ = clock_.now();  // of the waits for other ranks
};

/// The delegate library of this process; or, if it cannot be opened, the reason and the decision of
/// the newest group. Any thread calls it. Never destroyed: threads may outlive static objects.
class DelegateLibrary {
 public:
  static DelegateLibrary& get() {
    static auto& library = *new DelegateLibrary;
    return library;
  }

  Interface* delegate() const noexcept { return delegate_; }

  /// Takes part in the agreement of a new group as a rank that cannot delegate.
  void refuse(int rank, int size, milliseconds timeout, const Exchange& exchange) {
    const auto named = firstDelegatingGroup();
    std::unique_lock<std::mutex> lock(mutex_);
    const auto number = ++made_[size];
    lock.unlock();
    Record own;
    static_cast<Capabilities&>(own) =
        number < named ? Capabilities::later(number, size, named) : Capabilities::unable(problem_);
    own.firstDelegatingGroup = named;
    own.sources = std::string(SWITCHML_DELEGATE_DIGEST) + exchange.sources;
    own.required = isSet("SWITCHML_REQUIRE");
    own.host = hostText(hostName());
    const auto decision =
        Refusal(exchange, rank, size, timeout, own, say, AgreementClock()).decision();
    lock.lock();
    const bool first = size_ == 0;
    size_ = size;
    reason_ = decision.detail;
    lock.unlock();
    const auto line = groupLine(size, glooDecision(decision.detail));
    if (first) {
      say(warningText(rank, problem_ + "; " + kStaysWithGloo));
    }
    if (rank == 0) {
      say(line);
    }
    requirement_.note(rank, own.required, decision);
    if (decision.forbidsGloo()) {
      throw std::runtime_error(refusalText(line));
    }
  }

  std::string report() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return loader::report(problem_, size_, reason_);
  }

 private:
  DelegateLibrary() {
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
      problem_ = printable(error == nullptr ? "it has no interface" : error);
      return;
    }
    delegate_ =
        reinterpret_cast<decltype(&switchml_delegate_interface)>(found)(SWITCHML_DELEGATE_DIGEST);
    problem_ = delegate_ == nullptr ? std::string(kName) + " was compiled from other sources" : "";
  }

  Interface* delegate_ = nullptr;
  std::string problem_;  // reason why the delegate library cannot be opened; empty if it is open
  Requirement requirement_{say};
  std::mutex mutex_;                   // guards the members below
  std::map<int, std::uint64_t> made_;  // groups by their size
  int size_ = 0;                       // of the newest group
  std::string reason_;                 // why that group falls back to Gloo
};

}  // namespace
}  // namespace loader

Interface* delegate() noexcept {
  try {
    return loader::DelegateLibrary::get().delegate();
  } catch (...) {  // no memory
    return nullptr;
  }
}

void agree(const std::vector<const void*>& contexts, int rank, int size,
           std::chrono::milliseconds timeout, const Exchange& exchange) {
  auto& library = loader::DelegateLibrary::get();
  if (library.delegate() != nullptr) {
    library.delegate()->join(contexts, rank, size, timeout, exchange);
  } else {
    library.refuse(rank, size, timeout, exchange);
  }
}

}  // namespace switchml_delegate

/// Writes the report as Interface::report() does. Without the delegate library, the report has the
/// reason and the decision of the newest group.
extern "C" __attribute__((visibility("default"))) std::size_t switchml_delegate_report(
    char* buffer, std::size_t capacity) noexcept {
  using switchml_delegate::loader::DelegateLibrary;
  namespace loader = switchml_delegate::loader;
  try {
    auto& library = DelegateLibrary::get();
    return library.delegate() != nullptr
               ? library.delegate()->report(buffer, capacity)
               : switchml_delegate::copyText(library.report(), buffer, capacity);
  } catch (...) {
    return switchml_delegate::copyText(loader::kNoMemory, buffer, capacity);
  }
}
