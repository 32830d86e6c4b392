/// What a rank fills into its switchml.cfg: values of the environment and of the group, then facts
/// of this host and of the rank's place on it: addresses, cores, the card.
///
/// Knows nothing of SwitchML, nor of what the values of the environment mean.
#pragma once

#include <arpa/inet.h>
#include <glob.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/cores.hpp"
#include "base/descriptor.hpp"
#include "base/text.hpp"

namespace switchml_delegate {

constexpr const char* kAuto = "auto";

/// Text without the blanks at its ends, as boost::program_options takes it.
inline std::string trimmed(const std::string& value) {
  constexpr const char* kBlanks = " \t\r\n";
  const auto first = value.find_first_not_of(kBlanks);
  return first == std::string::npos
             ? ""
             : value.substr(first, value.find_last_not_of(kBlanks) + 1 - first);
}

/// Adds a value that a rank has filled in, for a message.
inline void noteFilled(std::string& filled, const std::string& key, const std::string& value) {
  filled += text(filled.empty() ? "" : " ", key, "=", shortened(value));
}

/// `value` with the values of the environment in the place of each `${NAME}`.
/// Throws std::invalid_argument where that is not possible.
inline std::string substituted(const std::string& key, const std::string& value) {
  constexpr const char* kOpen = "${";
  std::string out;
  std::size_t end = 0;
  for (auto open = value.find(kOpen); open != std::string::npos; open = value.find(kOpen, end)) {
    const auto begin = open + 2;
    const auto close = value.find('}', begin);
    if (close == std::string::npos) {
      throw std::invalid_argument(
          text(key, " has a '${' without a '}': ", shortened(value.substr(open))));
    }
    const auto name = value.substr(begin, close - begin);
    const bool named = !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
                       std::all_of(name.begin(), name.end(), [](unsigned char letter) {
                         return std::isalnum(letter) != 0 || letter == '_';
                       });
    const char* const given = std::getenv(name.c_str());
    const char* const wrong =
        !named             ? "which is no name of a variable"
        : given == nullptr ? "which is not set in the environment"
        : std::strpbrk(given, "#\r\n") != nullptr
            ? "whose value has a line break or a '#', which no value of a switchml.cfg can have"
            : nullptr;
    if (wrong != nullptr) {
      throw std::invalid_argument(text(key, " has ${", shortened(name), "}, ", wrong));
    }
    out += value.substr(end, open - end) + given;
    end = close + 1;
  }
  return out + value.substr(end);
}

/// Throws std::invalid_argument where a text begins with a byte order mark, of which the client
/// library only says that it cannot read the file.
inline void refuseByteOrderMark(const std::string& whole) {
  constexpr std::array<std::pair<const char*, const char*>, 3> kMarks{
      {{"\xef\xbb\xbf", "UTF-8 with"}, {"\xff\xfe", "UTF-16 with"}, {"\xfe\xff", "UTF-16 with"}}};
  for (const auto& [mark, encoding] : kMarks) {
    if (whole.rfind(mark, 0) == 0) {
      throw std::invalid_argument(
          text("it is ", encoding, " a byte order mark; save it as UTF-8 without one"));
    }
  }
}

/// The text of a switchml.cfg with all that has to be known before it can be parsed: `${NAME}` in
/// any value, and the `numbers`, which are "auto" or absent. All else stays as it is, and is for
/// the library to refuse. Throws std::invalid_argument.
inline std::string fillIn(const std::string& whole, const std::map<std::string, int>& numbers,
                          std::string& filled) {
  refuseByteOrderMark(whole);
  auto absent = numbers;
  std::string out;
  std::string section;
  std::istringstream lines(whole);
  for (std::string line; std::getline(lines, line); out += '\n') {
    const auto content = trimmed(line.substr(0, line.find('#')));
    const auto equals = content.find('=');
    if (content.size() > 1 && content.front() == '[' && content.back() == ']') {
      section = content.substr(1, content.size() - 2);
      section += section.empty() || section.back() == '.' ? "" : ".";
    } else if (equals != std::string::npos) {
      const auto name = trimmed(content.substr(0, equals));
      const auto key = section + name;
      const auto given = trimmed(content.substr(equals + 1));
      auto value = substituted(key, given);
      absent.erase(key);
      if (const auto number = numbers.find(key);
          number != numbers.end() && trimmed(value) == kAuto) {
        value = text(number->second);
      }
      if (value != given) {
        noteFilled(filled, name, value);
        out += text(name, " = ", value);
        continue;
      }
    }
    out += line;
  }
  // Before the first section a key has its section with it.
  std::string missing;
  for (const auto& [key, number] : absent) {
    missing += text(key, " = ", number, "\n");
    noteFilled(filled, key.substr(key.rfind('.') + 1), text(number));
  }
  return missing + out;
}

/// Writes all of it, and closes the file, which may be null. False where that fails, with errno.
inline bool writeAll(std::FILE* file, const std::string& content) {
  if (file == nullptr) {
    return false;
  }
  const bool written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
  return std::fclose(file) == 0 && written;
}

inline std::string hostName() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// IPv4 addresses of the network interfaces by their names; empty where one has none.
using Interfaces = std::map<std::string, std::string>;

inline std::string addressText(const sockaddr* address) {
  char out[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, out, sizeof out);
  return out;
}

inline Interfaces interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    throw std::runtime_error(text("the network interfaces cannot be read: ", std::strerror(errno)));
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(list, freeifaddrs);
  Interfaces out;
  for (const auto* one = list; one != nullptr; one = one->ifa_next) {
    auto& address = out[one->ifa_name];
    if (address.empty() && one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET) {
      address = addressText(one->ifa_addr);
    }
  }
  return out;
}

/// Address that packets of this host to `host` have; empty where there is none of IPv4.
inline std::string sourceAddress(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &list) != 0) {
    return "";
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> found(list, freeaddrinfo);
  const Descriptor made(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  socklen_t length = sizeof own;
  const bool known =
      connect(made.get(), found->ai_addr, found->ai_addrlen) == 0 &&  // sends nothing
      getsockname(made.get(), reinterpret_cast<sockaddr*>(&own), &length) == 0;
  return known ? addressText(reinterpret_cast<const sockaddr*>(&own)) : "";
}

constexpr const char* kSysfs = "/sys";

/// A card, or its virtual counterpart: where sysfs has it, and its interface. Empty where not
/// known.
struct Card {
  std::string directory;
  std::string interface;

  static Card of(const std::string& interface, const std::string& sysfs = kSysfs) {
    return {text(sysfs, "/class/net/", interface, "/device"), interface};
  }
};

/// The one card that DPDK's options name; none where they name several.
inline Card namedCard(const std::string& options, const std::string& sysfs = kSysfs) {
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
      value = value.substr(0, value.find(','));
      const auto colons = std::count(value.begin(), value.end(), ':');
      const auto directory = text(sysfs, "/bus/pci/devices/", colons == 1 ? "0000:" : "", value);
      glob_t names{};
      const bool one = glob((directory + "/net/*").c_str(), 0, nullptr, &names) == 0 &&
                       names.gl_pathc == 1;  // a driver of DPDK's own has no interface
      const std::string path = one ? names.gl_pathv[0] : "";
      globfree(&names);
      found.push_back({directory, path.substr(path.rfind('/') + 1)});
    }
    constexpr const char* kInterface = ",iface=";
    if (const auto at = word.find(kInterface); at != std::string::npos) {
      const auto begin = at + std::strlen(kInterface);
      found.push_back(Card::of(word.substr(begin, word.find(',', begin) - begin), sysfs));
    }
  }
  return found.size() == 1 ? found[0] : Card{};
}

/// Address that `value` of worker_ip stands for: itself, that of `interface:NAME`, or for "auto"
/// that of the interface of the `card`, else `other`. Throws std::invalid_argument.
inline std::string workerAddress(const std::string& value, const Interfaces& known,
                                 const Card& card, const std::string& other) {
  constexpr const char* kInterface = "interface:";
  const bool given = value.rfind(kInterface, 0) == 0;
  if (!given && value != kAuto) {
    return value;
  }
  const auto name = given ? value.substr(std::strlen(kInterface)) : card.interface;
  const auto found = known.find(name);
  std::string why;
  if (found != known.end()) {
    if (!found->second.empty()) {
      return found->second;
    }
    why = text(name, " has no IPv4 address; give it one");
  } else if (given || !name.empty()) {
    why = text(
        "there is no interface ", shortened(name), "; there are ",
        known.empty() ? "none" : joined(known, ", ", [](const auto& one) { return one.first; }));
  } else if (!other.empty() && other.rfind("127.", 0) != 0) {
    return other;
  } else {
    why =
        "the interface of the card is not known, and no other leads to the controller; set it to "
        "an address or to interface:NAME";
  }
  throw std::invalid_argument(text("worker_ip = ", shortened(value), ": ", why));
}

/// The cores in the order in which they are taken: those near the card come first, and at the end
/// come those that this thread is bound to.
inline std::vector<unsigned> inOrder(const CoreSet& all, const CoreSet& near,
                                     const CoreSet& bound = {}) {
  std::vector<unsigned> out(all.begin(), all.end());
  const auto place = [&](unsigned core) {
    return std::make_pair(bound.count(core), near.count(core) == 0);
  };
  std::stable_sort(out.begin(), out.end(),
                   [&place](unsigned a, unsigned b) { return place(a) < place(b); });
  return out;
}

}  // namespace switchml_delegate
