// The counters as JSON.
#ifndef SOFTSWITCH_REPORT_H_
#define SOFTSWITCH_REPORT_H_

#include <cstdint>
#include <string>

#include "plane.h"

namespace softswitch {

// The seed is that of the faults.
std::string Report(const Plane& plane, std::uint64_t seed);

}  // namespace softswitch

#endif  // SOFTSWITCH_REPORT_H_
