#include "host/process_cores.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <vector>

#include "base/text.hpp"

namespace switchml_delegate {
namespace {

/// Returns the variables by which OpenMP binds threads, as `NAME=value`; nothing if none does.
/// `valueOf` returns the value of a variable, empty if it is not set.
std::string bindingVariables(const std::function<std::string(const char* name)>& valueOf) {
  std::string found;
  for (const char* name : {"KMP_AFFINITY", "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"}) {
    const auto value = valueOf(name);
    auto small = value;
    std::transform(small.begin(), small.end(), small.begin(),
                   [](unsigned char letter) { return std::tolower(letter); });
    if (small == "false") {
      break;  // OpenMP ignores the variables after it too
    }
    if (!value.empty() && small.find("none") == std::string::npos &&
        small.find("disabled") == std::string::npos) {
      found += text(found.empty() ? "" : " ", name, "=", shortened(value));
    }
  }
  return found;
}

template <typename Function>
Function* openMp(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

/// Adds the cores of OpenMP's places. Returns how many cores OpenMP found when it was loaded, or 0
/// if it is not loaded, or binds no thread.
std::size_t addOpenMpCores(CoreSet& cores) {
  const auto places = openMp<int()>("omp_get_num_places");
  const auto size = openMp<int(int)>("omp_get_place_num_procs");
  const auto ids = openMp<void(int, int*)>("omp_get_place_proc_ids");
  const auto count = openMp<int()>("omp_get_num_procs");
  if (!places || !size || !ids || !count || places() == 0) {
    return 0;
  }
  for (int place = 0; place < places(); ++place) {
    std::vector<int> numbers(static_cast<std::size_t>(size(place)));
    ids(place, numbers.data());
    cores.insert(numbers.begin(), numbers.end());
  }
  return static_cast<std::size_t>(count());
}

}  // namespace

Binding inheritedBinding(const CoreSet& own, const CoreSet& allowed, pid_t parent,
                         const std::string& proc) {
  std::string binder;
  auto found = allowed;
  for (auto process = parent; process > 0; process = parentOf(process, proc)) {
    const auto directory = text(proc, "/", process);
    const auto threads = coresOfThreads(directory);
    if (std::find(threads.begin(), threads.end(), own) == threads.end()) {
      for (auto core = found.begin(); !threads.empty() && core != found.end();) {
        const bool has = std::any_of(threads.begin(), threads.end(), [&core](const auto& cores) {
          return cores.count(*core) != 0;
        });
        core = has ? std::next(core) : found.erase(core);
      }
      break;
    }
    binder = directory;
  }
  if (binder.empty()) {
    return {};
  }
  auto environment = startEnvironment(binder);
  const auto variables =
      bindingVariables([&environment](const char* name) { return environment[name]; });
  if (variables.empty() || found.size() <= own.size() || !hasOpenMp(binder) ||
      !std::includes(found.begin(), found.end(), own.begin(), own.end())) {
    return {};
  }
  const bool lists = variables.find_first_of("0123456789") != std::string::npos;
  return lists || own.count(*found.begin()) != 0 ? Binding{found, variables} : Binding{};
}

ProcessCores::ProcessCores() : all(ownCores()) {
  const auto own = all;
  const auto allowed = allowedCores();
  if (own.size() == allowed.size()) {
    return;
  }
  auto variables = bindingVariables([](const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
  });
  if (const auto count = addOpenMpCores(all); all.size() < count && allowed.size() == count) {
    all = allowed;
  }
  if (auto binding = inheritedBinding(all, allowed, getppid()); !binding.variables.empty()) {
    all = std::move(binding.allowed);
    variables = std::move(binding.variables);
  }
  if (variables.empty()) {
    return;
  }
  if (all.size() > own.size()) {
    bound = own;
    note = text(" (a thread is bound there by ", variables, ")");
  }
  if (all.size() < allowed.size()) {
    reason = text(" (the kernel allows ", allowed.size(), ": unset ", variables,
                  " if it has bound this process or its launcher)");
  }
}

}  // namespace switchml_delegate
