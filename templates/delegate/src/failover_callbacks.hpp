/// How the failover of a group stops the context and brings it into use again.
#pragma once

#include "recover/failover.hpp"
#include "sum/bring_up.hpp"

namespace switchml_delegate {

/// Returns the functions that Failover calls, on the threads that it documents. `bringUp` has the
/// limits of a resume attempt.
Failover::Callbacks failoverCallbacks(const BringUp& bringUp);

}  // namespace switchml_delegate
