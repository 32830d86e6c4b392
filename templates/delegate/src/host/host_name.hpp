/// Name of this host.
#pragma once

#include <string>

namespace switchml_delegate {

std::string hostName();

}  // namespace switchml_delegate
