/// Cores that this process may use, by the kernel, by OpenMP and by the processes that started it.
#pragma once

#include <dlfcn.h>
#include <glob.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "base/threads.hpp"

namespace switchml_delegate {

using CoreSet = std::set<unsigned>;

/// Cores that a list as "0-2,5" names; none where it is written in another way.
inline CoreSet parseCores(const std::string& list) {
  CoreSet cores;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    std::istringstream range(part);
    std::uint64_t first = 0;
    if (!(range >> first)) {
      return {};
    }
    std::uint64_t last = first;
    if (char dash = 0; range >> dash && (dash != '-' || !(range >> last) || !range.eof())) {
      return {};
    }
    for (auto core = first; core <= last && cores.size() <= UINT16_MAX; ++core) {
      cores.insert(static_cast<unsigned>(core));
    }
  }
  return cores;
}

/// First line of a file; empty where there is none.
inline std::string firstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

constexpr const char* kProc = "/proc";

/// Parent of a process, which is a number or "self"; 0 where it has none in this namespace, or
/// where /proc does not say.
template <typename Process>
pid_t parentOf(const Process& process, const std::string& proc = kProc) {
  const auto line = firstLine(text(proc, "/", process, "/stat"));
  std::istringstream fields(line.substr(std::min(line.rfind(')') + 1, line.size())));
  char state = 0;
  pid_t parent = 0;
  return fields >> state >> parent ? parent : 0;
}

/// Cores that this thread may run on.
inline CoreSet ownCores() {
  std::array<cpu_set_t, 64> bits{};  // the kernel may know more than 1024
  CoreSet cores;
  if (sched_getaffinity(0, sizeof bits, bits.data()) == 0) {
    for (unsigned core = 0; core < 8 * sizeof bits; ++core) {
      if (CPU_ISSET_S(core, sizeof bits, bits.data())) {
        cores.insert(core);
      }
    }
  }
  return cores;
}

/// Cores that a thread of this process may choose: the host's, less those that its cpuset leaves
/// out. A thread that asks for all cores gets these.
inline CoreSet allowedCores() {
  const auto found = resultWithin(std::chrono::seconds(5), [] {
    std::array<cpu_set_t, 64> every;
    std::memset(every.data(), 0xff, sizeof every);
    sched_setaffinity(0, sizeof every, every.data());
    return joined(ownCores(), ",");
  });
  const auto cores = found ? parseCores(*found) : CoreSet{};
  return cores.empty() ? ownCores() : cores;  // empty where no thread can be had
}

/// Cores of each thread of a process, which has this directory in /proc; none where that does not
/// say.
inline std::vector<CoreSet> coresOfThreads(const std::string& process) {
  constexpr const char* kKey = "Cpus_allowed_list:";
  std::vector<CoreSet> found;
  glob_t names{};
  if (glob((process + "/task/*/status").c_str(), 0, nullptr, &names) == 0) {
    for (std::size_t i = 0; i < names.gl_pathc; ++i) {
      std::ifstream status(names.gl_pathv[i]);
      for (std::string line; std::getline(status, line);) {
        if (line.rfind(kKey, 0) == 0) {
          found.push_back(parseCores(line.substr(std::strlen(kKey))));
        }
      }
    }
  }
  globfree(&names);
  return found;
}

/// The variables by which OpenMP binds threads, as `NAME=value`; empty where none does. `valueOf`
/// gives the value of a variable, empty where it is not set.
template <typename Function>
std::string bindingVariables(const Function& valueOf) {
  std::string found;
  for (const char* name : {"KMP_AFFINITY", "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"}) {
    const std::string value = valueOf(name);
    auto small = value;
    std::transform(small.begin(), small.end(), small.begin(),
                   [](unsigned char letter) { return std::tolower(letter); });
    if (small == "false") {
      break;  // nor do the variables behind it
    }
    if (!value.empty() && small.find("none") == std::string::npos &&
        small.find("disabled") == std::string::npos) {
      found += text(found.empty() ? "" : " ", name, "=", shortened(value));
    }
  }
  return found;
}

/// The same of a process, which has this directory in /proc, as it was started.
inline std::string bindingVariablesOf(const std::string& process) {
  std::map<std::string, std::string> values;
  std::ifstream file(process + "/environ");
  for (std::string one; std::getline(file, one, '\0');) {
    const auto equals = std::min(one.find('='), one.size());
    values.emplace(one.substr(0, equals), one.substr(std::min(equals + 1, one.size())));
  }
  return bindingVariables([&values](const char* name) { return values[name]; });
}

/// True where a process has a runtime of OpenMP.
inline bool hasOpenMp(const std::string& process) {
  std::ifstream maps(process + "/maps");
  for (std::string line; std::getline(maps, line);) {
    for (const char* library : {"/libgomp", "/libomp", "/libiomp"}) {
      if (line.find(library) != std::string::npos) {
        return true;
      }
    }
  }
  return false;
}

/// Cores of a process before OpenMP bound its thread, and the variables that had it do so.
struct Binding {
  CoreSet before;
  std::string variables;
};

/// Binding that a process has inherited, as ranks do whose launcher has imported torch:
///
/// 1. Of the ancestors that have a thread with the same cores as this process, the uppermost one
///    has narrowed them.
/// 2. OpenMP has bound that thread if the process has a runtime of OpenMP and variables that bind.
///    Else a launcher such as taskset, srun or mpirun means these cores.
/// 3. Unless the variables list cores, OpenMP binds the thread to the first place, which has the
///    lowest core.
/// 4. The cores before are those of the parent of that ancestor, as far as the kernel `allows`
///    them; all of these where that parent cannot be seen, as from within a container.
///
/// Empty where no binding was inherited, or where /proc does not tell.
inline Binding inheritedBinding(const CoreSet& own, const CoreSet& allows, pid_t parent,
                                const std::string& proc = kProc) {
  std::string binder;
  auto before = allows;
  for (auto process = parent; process > 0; process = parentOf(process, proc)) {
    const auto directory = text(proc, "/", process);
    const auto threads = coresOfThreads(directory);
    if (std::find(threads.begin(), threads.end(), own) == threads.end()) {
      for (auto core = before.begin(); !threads.empty() && core != before.end();) {
        const bool has = std::any_of(threads.begin(), threads.end(), [&core](const auto& cores) {
          return cores.count(*core) != 0;
        });
        core = has ? std::next(core) : before.erase(core);
      }
      break;
    }
    binder = directory;
  }
  const auto variables = binder.empty() ? "" : bindingVariablesOf(binder);
  if (variables.empty() || before.size() <= own.size() || !hasOpenMp(binder) ||
      !std::includes(before.begin(), before.end(), own.begin(), own.end())) {
    return {};
  }
  const bool lists = variables.find_first_of("0123456789") != std::string::npos;
  return lists || own.count(*before.begin()) != 0 ? Binding{before, variables} : Binding{};
}

/// Cores that this process may use, also where OpenMP has bound this thread, or that of a process
/// that started this one, to some of them.
struct ProcessCores {
  CoreSet all = ownCores();
  CoreSet bound;       // those of this thread, where the process has others
  std::string note;    // of the variables by which OpenMP has bound this thread
  std::string reason;  // why there may be more cores than these, for an error; may be empty

  ProcessCores() {
    const auto own = all;
    const auto allowed = allowedCores();
    if (own.size() == allowed.size()) {
      return;
    }
    auto variables = bindingVariables([](const char* name) {
      const char* const value = std::getenv(name);
      return value == nullptr ? "" : value;
    });
    if (const auto count = openMpCores(all); all.size() < count && allowed.size() == count) {
      all = allowed;
    }
    if (auto binding = inheritedBinding(all, allowed, getppid()); !binding.variables.empty()) {
      all = std::move(binding.before);
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

 private:
  /// Adds the cores of OpenMP's places. Returns how many cores OpenMP found when it was loaded, or
  /// 0 where it is not, or binds no thread.
  static std::size_t openMpCores(CoreSet& cores) {
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

  template <typename Function>
  static Function* openMp(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  }
};

}  // namespace switchml_delegate
