#include "host/processes.hpp"

#include <glob.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/file.hpp"
#include "base/text.hpp"

namespace switchml_delegate {

pid_t parentOf(const std::string& process, const std::string& proc) {
  const auto line = firstLine(text(proc, "/", process, "/stat"));
  std::istringstream fields(line.substr(std::min(line.rfind(')') + 1, line.size())));
  char state = 0;
  pid_t parent = 0;
  return fields >> state >> parent ? parent : 0;
}

pid_t parentOf(pid_t process, const std::string& proc) { return parentOf(text(process), proc); }

std::vector<CoreSet> coresOfThreads(const std::string& directory) {
  constexpr const char* kKey = "Cpus_allowed_list:";
  std::vector<CoreSet> found;
  glob_t names{};
  if (glob((directory + "/task/*/status").c_str(), 0, nullptr, &names) == 0) {
    for (std::size_t i = 0; i < names.gl_pathc; ++i) {
      std::ifstream status(names.gl_pathv[i]);
      for (std::string line; std::getline(status, line);) {
        if (line.rfind(kKey, 0) == 0) {
          found.push_back(parseCores(line.substr(std::strlen(kKey))));
        }
      }
    }
  }
  globfree(&names);
  return found;
}

std::map<std::string, std::string> startEnvironment(const std::string& directory) {
  std::map<std::string, std::string> values;
  std::ifstream file(directory + "/environ");
  for (std::string one; std::getline(file, one, '\0');) {
    const auto equals = std::min(one.find('='), one.size());
    values.emplace(one.substr(0, equals), one.substr(std::min(equals + 1, one.size())));
  }
  return values;
}

bool hasOpenMp(const std::string& directory) {
  std::ifstream maps(directory + "/maps");
  for (std::string line; std::getline(maps, line);) {
    for (const char* library : {"/libgomp", "/libomp", "/libiomp"}) {
      if (line.find(library) != std::string::npos) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace switchml_delegate
