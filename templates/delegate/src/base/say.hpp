/// Lines for the user.
#pragma once

#include <chrono>
#include <string>

namespace switchml_delegate {

/// Writes `text` to a file descriptor. Returns false if `limit` passes before all of it is written.
bool writeWithin(std::chrono::milliseconds limit, int target, const std::string& text);

/// Writes a line to stderr. Waits for a reader of stderr for a second at most, and then drops the
/// line; no later line waits until one has been written. Drops the line, too, if there is no
/// memory. Any thread may call it, without a mutex.
void say(const std::string& line) noexcept;

}  // namespace switchml_delegate
