// The counters of the switch as JSON.
#ifndef SOFTSWITCH_REPORT_H_
#define SOFTSWITCH_REPORT_H_

#include <cstdint>
#include <string>

#include "data_plane.h"

namespace softswitch {

// Call it when the data plane has stopped. `seed`: of the faults.
std::string Report(const DataPlane& plane, std::uint64_t seed);

}  // namespace softswitch

#endif  // SOFTSWITCH_REPORT_H_
