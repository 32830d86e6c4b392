#include "join/eal_options.hpp"

#include "base/text.hpp"

namespace switchml_delegate {

std::string withoutSharedFiles(const std::string& options) {
  const auto has = [&options](const char* option) {
    return options.find(option) != std::string::npos;
  };
  const char* const option = has("--no-huge") ? "--no-shconf" : "--in-memory";
  return has(option) || has("--legacy-mem") || has("--huge-unlink=never")
             ? options
             : text(option, options.empty() ? "" : " ", options);
}

}  // namespace switchml_delegate
