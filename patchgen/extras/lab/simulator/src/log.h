// Messages for the user: one line each, on stderr.
#ifndef SWITCHML_SRC_LOG_H_
#define SWITCHML_SRC_LOG_H_

#include <cstdio>
#include <string>

namespace switchml {

inline void Log(const std::string& message) {
  // One call, so that lines of several threads and processes do not mix.
  std::fputs(("switchml simulator: " + message + "\n").c_str(), stderr);
}

}  // namespace switchml

#endif  // SWITCHML_SRC_LOG_H_
