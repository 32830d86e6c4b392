/// Calls with a timeout for functions that have none, such as getaddrinfo(3).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace switchml_delegate {

/// Calls `function` on a thread of its own, `swml-timed`. Returns its result, or the text of what
/// it or the start of the thread has thrown; null if it takes longer than `limit`. The thread is
/// detached: after `limit` it goes on until the function returns, so the function must own all that
/// it uses.
std::unique_ptr<std::string> resultWithin(std::chrono::milliseconds limit,
                                          std::function<std::string()> function);

}  // namespace switchml_delegate
