/// Name of this host. C++14, for the delegate library and the loader in torch.
#pragma once

#include <limits.h>
#include <unistd.h>

#include <array>
#include <string>

namespace switchml_delegate {

inline std::string hostName() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace switchml_delegate
