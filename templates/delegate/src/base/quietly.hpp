/// Calls that throw nothing, for destructors, threads and the exit of the process.
#pragma once

#include <exception>
#include <string>

namespace switchml_delegate {

/// Replaces a text for which there is no memory. It is short enough that a copy needs no memory.
inline const std::string& kOutOfMemory = *new std::string("out of memory");

/// Calls a function. Returns false if it throws, as it does if there is no memory or no thread.
template <typename Function>
bool quietly(const Function& function) noexcept {
  try {
    function();
    return true;
  } catch (...) {
    return false;
  }
}

/// Returns the text that a function makes, or kOutOfMemory.
template <typename Function>
std::string textOrOutOfMemory(const Function& make) noexcept {
  try {
    return make();
  } catch (...) {
    return kOutOfMemory;
  }
}

inline std::string reasonOf(const std::exception& error) noexcept {
  return textOrOutOfMemory([&error] { return std::string(error.what()); });
}

}  // namespace switchml_delegate
