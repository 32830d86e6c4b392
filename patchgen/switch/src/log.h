// Lines on standard error.
#ifndef SOFTSWITCH_LOG_H_
#define SOFTSWITCH_LOG_H_

#include <string>

namespace softswitch {

// What others have sent may be part of a line: only its printable characters are written.
void Log(const std::string& line);

}  // namespace softswitch

#endif  // SOFTSWITCH_LOG_H_
