#include "host/substitution.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "base/text.hpp"

namespace switchml_delegate {
namespace {

/// Returns the text without the blanks at its ends, which boost::program_options removes too.
std::string withoutBlanks(const std::string& value) {
  constexpr const char* kBlanks = " \t\r\n";
  const auto first = value.find_first_not_of(kBlanks);
  return first == std::string::npos
             ? ""
             : value.substr(first, value.find_last_not_of(kBlanks) + 1 - first);
}

/// Replaces each `${NAME}` in the value of a key by the variable of the environment. Throws
/// std::invalid_argument if that is not possible.
std::string withVariables(const std::string& key, const std::string& value) {
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

/// Throws std::invalid_argument if a text begins with a byte order mark: the client library would
/// report such a file as unreadable, without a reason.
void refuseByteOrderMark(const std::string& whole) {
  constexpr std::array<std::pair<const char*, const char*>, 3> kMarks{
      {{"\xef\xbb\xbf", "UTF-8 with"}, {"\xff\xfe", "UTF-16 with"}, {"\xfe\xff", "UTF-16 with"}}};
  for (const auto& [mark, encoding] : kMarks) {
    if (whole.rfind(mark, 0) == 0) {
      throw std::invalid_argument(
          text("it is ", encoding, " a byte order mark; save it as UTF-8 without one"));
    }
  }
}

}  // namespace

void noteFilled(std::string& filled, const std::string& key, const std::string& value) {
  filled += text(filled.empty() ? "" : " ", key, "=", shortened(value));
}

std::string fillIn(const std::string& whole, const std::map<std::string, int>& numbers,
                   std::string& filled) {
  refuseByteOrderMark(whole);
  auto absent = numbers;
  std::string out;
  std::string section;
  std::istringstream lines(whole);
  for (std::string line; std::getline(lines, line); out += '\n') {
    const auto content = withoutBlanks(line.substr(0, line.find('#')));
    const auto equals = content.find('=');
    if (content.size() > 1 && content.front() == '[' && content.back() == ']') {
      section = content.substr(1, content.size() - 2);
      section += section.empty() || section.back() == '.' ? "" : ".";
    } else if (equals != std::string::npos) {
      const auto name = withoutBlanks(content.substr(0, equals));
      const auto key = section + name;
      const auto given = withoutBlanks(content.substr(equals + 1));
      auto value = withVariables(key, given);
      absent.erase(key);
      if (const auto number = numbers.find(key);
          number != numbers.end() && withoutBlanks(value) == kAuto) {
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
  // Before the first section, a key is written with its section.
  std::string missing;
  for (const auto& [key, number] : absent) {
    missing += text(key, " = ", number, "\n");
    noteFilled(filled, key.substr(key.rfind('.') + 1), text(number));
  }
  return missing + out;
}

}  // namespace switchml_delegate
