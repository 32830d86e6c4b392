#include "log.h"

#include <unistd.h>

namespace softswitch {

void Log(const std::string& line) {
  std::string text = "switchml-switch: ";
  for (const char each : line) text += each >= ' ' && each <= '~' ? each : '?';
  text += '\n';
  // One call, so that lines of several threads do not mix. It may fail if there is no reader.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace softswitch
