/// Cores that this process may use, although OpenMP may have bound its threads to fewer.
#pragma once

#include <sys/types.h>

#include <string>

#include "host/cores.hpp"
#include "host/processes.hpp"

namespace switchml_delegate {

/// Binding of a thread by OpenMP: the cores that its process was allowed without it, and the
/// variables that made OpenMP bind the thread.
struct Binding {
  CoreSet allowed;
  std::string variables;  // as `NAME=value`
};

/// Returns the binding that this process has inherited, as ranks do whose launcher has imported
/// torch; an empty one if it has inherited none, or /proc does not tell. `own`: cores of this
/// process. `allowed`: cores that the kernel allows. `parent`: the process that started this one.
///
/// 1. The *binder* is the topmost ancestor in an unbroken line of ancestors that each have a thread
///    with exactly the cores `own`.
/// 2. OpenMP has bound that thread if the binder has a runtime of OpenMP, and variables that bind.
///    Else a launcher such as taskset, srun or mpirun has chosen these cores.
/// 3. Unless the variables list cores, OpenMP binds the thread to the first place, which has the
///    lowest core of the binder.
/// 4. The result is the cores of the binder's parent, within `allowed`; all of `allowed` if that
///    parent cannot be seen, as from within a container.
Binding inheritedBinding(const CoreSet& own, const CoreSet& allowed, pid_t parent,
                         const std::string& proc = kProc);

/// Cores that this process may use. Cores that OpenMP took from the calling thread, or from a
/// process that started this one, are among them.
///
/// The thread that makes a group constructs it, for `cores = auto`. The constructor reads /proc,
/// and waits up to 5 s for a helper thread (allowedCores()). A value of that thread.
struct ProcessCores {
  ProcessCores();

  CoreSet all;
  CoreSet bound;       // cores of the calling thread, if the process has others
  std::string note;    // names the variables by which OpenMP has bound the calling thread
  std::string reason;  // for an error: why the process may have more cores than these; or empty
};

}  // namespace switchml_delegate
