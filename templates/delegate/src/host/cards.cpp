#include "host/cards.hpp"

#include <glob.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <vector>

#include "base/text.hpp"

namespace switchml_delegate {
namespace {

/// Returns the card at a PCI address. A card that a driver of DPDK's own has taken has no
/// interface.
Card cardAt(const std::string& address, const std::string& sysfs) {
  const bool hasDomain = std::count(address.begin(), address.end(), ':') != 1;
  const auto directory = text(sysfs, "/bus/pci/devices/", hasDomain ? "" : "0000:", address);
  glob_t names{};
  const bool found =
      glob((directory + "/net/*").c_str(), 0, nullptr, &names) == 0 && names.gl_pathc == 1;
  const std::string path = found ? names.gl_pathv[0] : "";
  globfree(&names);
  return {directory, path.substr(path.rfind('/') + 1)};
}

}  // namespace

Card Card::of(const std::string& interface, const std::string& sysfs) {
  return {text(sysfs, "/class/net/", interface, "/device"), interface};
}

Card namedCard(const std::string& options, const std::string& sysfs) {
  std::vector<Card> found;
  std::istringstream words(options);
  bool device = false;
  for (std::string word; words >> word;) {
    auto value = device ? word : "";
    device = false;
    for (const char* option : {"--allow", "--pci-whitelist", "-a", "-w"}) {
      if (word.rfind(option, 0) == 0) {
        value = word.substr(std::strlen(option));
        value = value.rfind('=', 0) == 0 ? value.substr(1) : value;
        device = value.empty();
        break;
      }
    }
    if (!value.empty()) {
      found.push_back(cardAt(value.substr(0, value.find(',')), sysfs));
    }
    constexpr const char* kInterface = ",iface=";
    if (const auto at = word.find(kInterface); at != std::string::npos) {
      const auto begin = at + std::strlen(kInterface);
      found.push_back(Card::of(word.substr(begin, word.find(',', begin) - begin), sysfs));
    }
  }
  return found.size() == 1 ? found[0] : Card{};
}

}  // namespace switchml_delegate
