/// Cores that this process may use, although OpenMP may have bound its threads to fewer.
#pragma once

#include <sys/types.h>

#include <string>

#include "host/cores.hpp"
#include "host/processes.hpp"

namespace switchml_delegate {

/// Cores of a process before OpenMP bound its thread, and the variables that made OpenMP bind it.
struct Binding {
  CoreSet before;
  std::string variables;  // as `NAME=value`
};

/// Returns the binding that this process has inherited, as ranks do whose launcher has imported
/// torch; an empty one if it has inherited none, or /proc does not tell:
///
/// 1. Of the ancestors that have a thread with the same cores as this process, the uppermost one
///    has narrowed them.
/// 2. OpenMP has bound that thread if the process has a runtime of OpenMP and variables that bind.
///    Else a launcher such as taskset, srun or mpirun means these cores.
/// 3. Unless the variables list cores, OpenMP binds the thread to the first place, which has the
///    lowest core.
/// 4. The cores before are those of the parent of that ancestor, as far as the kernel `allows`
///    them; all of these if that parent cannot be seen, as from within a container.
Binding inheritedBinding(const CoreSet& own, const CoreSet& allows, pid_t parent,
                         const std::string& proc = kProc);

/// Cores that this process may use when it is constructed. Cores that OpenMP took from the calling
/// thread, or from a process that started this one, are among them.
struct ProcessCores {
  ProcessCores();

  CoreSet all;
  CoreSet bound;       // cores of the calling thread, if the process has others
  std::string note;    // names the variables by which OpenMP has bound the calling thread
  std::string reason;  // for an error: why the process may have more cores than these; or empty
};

}  // namespace switchml_delegate
