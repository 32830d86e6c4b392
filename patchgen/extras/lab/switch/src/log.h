// Lines on standard error.
#ifndef SOFTSWITCH_LOG_H_
#define SOFTSWITCH_LOG_H_

#include <string>

namespace softswitch {

// Writes a line. Replaces unprintable characters, because parts of the line may come from clients.
// Any thread may call this.
void Log(const std::string& line);

}  // namespace softswitch

#endif  // SOFTSWITCH_LOG_H_
