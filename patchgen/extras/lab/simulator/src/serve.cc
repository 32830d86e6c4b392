// switchml-aggregator: the aggregator as a program. Its main thread serves; a signal ends it.
#include <signal.h>
#include <sys/signalfd.h>

#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "aggregator.h"
#include "counters.h"
#include "log.h"
#include "socket.h"

namespace {

using switchml::Endpoint;

struct Options {
  Endpoint listen{"127.0.0.1", 50099};
  uint16_t workers = 0;
  std::string json;
};

uint16_t ParseNumber(const std::string& option, const std::string& text, long least) {
  constexpr long kMost = 65535;
  const bool digits =
      !text.empty() && text.size() <= 5 && text.find_first_not_of("0123456789") == text.npos;
  const long number = digits ? std::stol(text) : -1;
  if (number < least || number > kMost) {
    throw std::runtime_error(option + ": " + text + " is not a number from " +
                             std::to_string(least) + " to " + std::to_string(kMost));
  }
  return static_cast<uint16_t>(number);
}

// Parses HOST:PORT. An address of IPv6 may have brackets.
Endpoint ParseAddress(const std::string& option, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    throw std::runtime_error(option + ": " + text + " is not HOST:PORT");
  }
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return {host, ParseNumber(option, text.substr(colon + 1), 0)};
}

Options ParseOptions(const std::vector<std::string>& arguments) {
  Options options;
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (name == "--listen") {
      options.listen = ParseAddress(name, value);
    } else if (name == "--workers") {
      options.workers = ParseNumber(name, value, 1);
    } else if (name == "--json") {
      options.json = value;
    } else {
      throw std::runtime_error(name + ": no such option");
    }
  }
  if (options.workers == 0) {
    throw std::runtime_error("--workers: give the number of workers that sum together");
  }
  return options;
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) {
    throw std::runtime_error(path + ": cannot be written");
  }
}

void Serve(const Options& options) {
  sigset_t ends;
  sigemptyset(&ends);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    sigaddset(&ends, number);
  }
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  const switchml::Fd end(signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!end) {
    throw std::runtime_error("signalfd: no descriptor left");
  }
  switchml::Aggregator aggregator(options.listen, options.workers);
  const Endpoint listening{options.listen.host, aggregator.port()};
  std::cout << R"({"listening": ")" << listening.Text() << R"("})" << std::endl;
  aggregator.Run(end);
  if (!options.json.empty()) {
    WriteFile(options.json, switchml::Json(aggregator.counters()));
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    Serve(ParseOptions({arguments + 1, arguments + count}));
  } catch (const std::exception& error) {
    switchml::Log(error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
