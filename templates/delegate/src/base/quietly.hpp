/// Functions for places where nothing may be thrown: destructors, threads, and the exit.
///
/// Header only: the loader in torch uses them as well.
#pragma once

#include <exception>
#include <string>

namespace switchml_delegate {

/// Stands for a text that there is no memory for. A copy of it needs no memory.
inline const std::string& kOutOfMemory = *new std::string("out of memory");

/// Calls a function, and returns false if it throws, as it does without memory or a thread.
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
std::string textOrNone(const Function& make) noexcept {
  try {
    return make();
  } catch (...) {
    return kOutOfMemory;
  }
}

inline std::string reasonOf(const std::exception& error) noexcept {
  return textOrNone([&error] { return std::string(error.what()); });
}

}  // namespace switchml_delegate
