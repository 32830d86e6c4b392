// Lines on standard error.
#ifndef SOFTSWITCH_LOG_H_
#define SOFTSWITCH_LOG_H_

#include <string>

namespace softswitch {

// Writes the printable characters of a line, of which a part may come from others.
void Log(const std::string& line);

}  // namespace softswitch

#endif  // SOFTSWITCH_LOG_H_
