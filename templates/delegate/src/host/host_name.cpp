#include "host/host_name.hpp"

#include <limits.h>
#include <unistd.h>

#include <array>

namespace switchml_delegate {

std::string hostName() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace switchml_delegate
