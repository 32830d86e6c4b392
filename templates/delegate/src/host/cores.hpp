/// Sets of processor cores.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace switchml_delegate {

using CoreSet = std::set<unsigned>;

/// Returns the cores that a list such as "0-2,5" names; none if it has another form.
CoreSet parseCores(const std::string& list);

/// Returns the cores that this thread may run on.
CoreSet ownCores();

/// Returns the cores that a thread of this process may choose: those of the host without those that
/// its cpuset leaves out. A thread that asks the kernel for all cores gets these.
CoreSet allowedCores();

/// Returns the cores in the order in which they are reserved: those near the card come first, and
/// the `bound` ones, which this thread is bound to, come last.
std::vector<unsigned> inOrder(const CoreSet& all, const CoreSet& near, const CoreSet& bound = {});

}  // namespace switchml_delegate
