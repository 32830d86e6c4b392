/// Processes of this host, as /proc shows them.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "host/cores.hpp"

namespace switchml_delegate {

constexpr const char* kProc = "/proc";

/// Returns the parent of a process, whose name in /proc is a number or "self"; 0 if it has none in
/// this PID namespace, or /proc does not tell.
pid_t parentOf(const std::string& process, const std::string& proc = kProc);
pid_t parentOf(pid_t process, const std::string& proc = kProc);

// The other functions take the directory of a process in /proc, and return nothing if they cannot
// read it.

/// Cores that each thread of a process may run on.
std::vector<CoreSet> coresOfThreads(const std::string& directory);

/// Variables of the environment that a process was started with.
std::map<std::string, std::string> startEnvironment(const std::string& directory);

/// True if a process has loaded a runtime of OpenMP.
bool hasOpenMp(const std::string& directory);

}  // namespace switchml_delegate
