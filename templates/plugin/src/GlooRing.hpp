/// Messages of the delegate between the ranks, over a process group of Gloo.
#pragma once

#include "Group.hpp"
#include "SwitchMLInterface.hpp"

namespace switchml_delegate {

/// Ring over the point-to-point messages of a group that nothing else uses. The delegate's threads
/// call its functions; a mutex orders the calls of the group, because torch numbers the operations
/// of a group without a lock.
Ring ringOver(const c10::intrusive_ptr<Group>& gloo);

}  // namespace switchml_delegate
