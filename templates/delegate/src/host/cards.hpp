/// The network card of a rank.
#pragma once

#include <string>

namespace switchml_delegate {

constexpr const char* kSysfs = "/sys";

/// A network card, or its virtual counterpart. Members that are not known are empty.
struct Card {
  std::string directory;  // in sysfs
  std::string interface;  // name of its network interface

  static Card of(const std::string& interface, const std::string& sysfs = kSysfs);
};

/// Returns the card that DPDK's options name; an empty one if they name none, or several.
Card namedCard(const std::string& options, const std::string& sysfs = kSysfs);

}  // namespace switchml_delegate
