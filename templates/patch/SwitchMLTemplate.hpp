/// The text of switchml.cfg, with the values that each rank fills in.
///
/// Knows nothing of SwitchML, nor of what the values mean.
#pragma once

#include <cctype>

#include "SwitchMLAgreement.hpp"

namespace switchml_torch {

constexpr const char* kAuto = "auto";

/// Text without the blanks at its ends, as boost::program_options takes it.
inline std::string trimmed(const std::string& value) {
  constexpr const char* kBlanks = " \t\r\n";
  const auto first = value.find_first_not_of(kBlanks);
  return first == std::string::npos
             ? ""
             : value.substr(first, value.find_last_not_of(kBlanks) + 1 - first);
}

/// Beginning of a text that may be too long for a message.
inline std::string shortened(const std::string& value) {
  constexpr std::size_t kMost = 80;
  return value.size() <= kMost ? value : value.substr(0, kMost) + "...";
}

/// Adds a value that a rank has filled in, for a message.
inline void noteFilled(std::string& filled, const std::string& key, const std::string& value) {
  filled += text(filled.empty() ? "" : " ", key, "=", shortened(value));
}

/// `value` with the values of the environment in the place of each `${NAME}`.
/// Throws std::invalid_argument where that is not possible.
template <typename Environment>
std::string substituted(const std::string& key, const std::string& value,
                        const Environment& environment) {
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
    if (!named) {
      throw std::invalid_argument(
          text(key, " has ${", shortened(name), "}, which is no name of a variable"));
    }
    const char* const found = environment(name.c_str());
    if (found == nullptr) {
      throw std::invalid_argument(
          text(key, " has ${", shortened(name), "}, which is not set in the environment"));
    }
    const std::string given = found;
    if (given.find_first_of("#\r\n") != std::string::npos) {
      throw std::invalid_argument(text(key, " has ${", shortened(name),
                                       "}, whose value has a line break or a '#', which no value "
                                       "of a switchml.cfg can have"));
    }
    out += value.substr(end, open - end) + given;
    end = close + 1;
  }
  return out + value.substr(end);
}

/// The text of a switchml.cfg with all that has to be known before it can be parsed: `${NAME}` in
/// any value, and the `numbers`, which are "auto" or absent. All else stays as it is, and is for
/// the library to refuse. Throws std::invalid_argument.
template <typename Environment>
std::string fillIn(const std::string& whole, const std::map<std::string, int>& numbers,
                   const Environment& environment, std::string& filled) {
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
      auto value = substituted(key, given, environment);
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

}  // namespace switchml_torch
