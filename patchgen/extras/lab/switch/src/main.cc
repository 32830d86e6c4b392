// switchml-switch: sums the packets of SwitchML's client libraries.

#include <pthread.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "controller.h"
#include "log.h"
#include "plane.h"
#include "report.h"

namespace {

using softswitch::FaultPlan;

constexpr double kMaxPort = softswitch::kMaxWorkers - 1;
constexpr double kMaxDelayMs = 60'000;
constexpr double kMaxWaitS = 86'400;

struct Options {
  std::string listen = "127.0.0.1:50099";
  std::vector<std::string> ports;
  FaultPlan faults;
  double wait = 120;  // seconds
  std::string json;
};

double Number(const std::string& option, const std::string& text, double highest) {
  std::size_t used = 0;
  double number = -1;
  try {
    number = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != text.size() || !(number >= 0 && number <= highest)) {
    throw std::runtime_error(option + ": " + text + " is no number from 0 to " +
                             std::to_string(static_cast<long>(highest)));
  }
  return number;
}

Options Read(const std::vector<std::string>& arguments) {
  Options options;
  options.faults.seed = std::random_device()();
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    const std::size_t equals = arguments[at].find('=');
    const std::string name = arguments[at].substr(0, equals);
    if (equals == std::string::npos && ++at == arguments.size()) {
      throw std::runtime_error(name + ": an option needs a value");
    }
    const std::string value =
        equals == std::string::npos ? arguments[at] : arguments[at].substr(equals + 1);
    if (name == "--listen") {
      options.listen = value;
    } else if (name == "--port") {
      options.ports.push_back(value);
    } else if (name == "--loss") {
      options.faults.loss = Number(name, value, 1);
    } else if (name == "--duplicate") {
      options.faults.duplicate = Number(name, value, 1);
    } else if (name == "--reorder") {
      options.faults.reorder = Number(name, value, 1);
    } else if (name == "--delay") {
      options.faults.delay = std::chrono::duration_cast<softswitch::Duration>(
          std::chrono::duration<double, std::milli>(Number(name, value, kMaxDelayMs)));
    } else if (name == "--lose-from") {
      options.faults.lose_from = static_cast<std::size_t>(Number(name, value, kMaxPort));
    } else if (name == "--lose-to") {
      options.faults.lose_to = static_cast<std::size_t>(Number(name, value, kMaxPort));
    } else if (name == "--seed") {
      options.faults.seed = static_cast<std::uint64_t>(Number(name, value, 1e15));
    } else if (name == "--wait") {
      options.wait = Number(name, value, kMaxWaitS);
    } else if (name == "--json") {
      options.json = value;
    } else {
      throw std::runtime_error(name + ": no such option");
    }
  }
  if (options.ports.empty()) throw std::runtime_error("--port: one for each worker is needed");
  return options;
}

void Write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw std::runtime_error(path + ": cannot be written");
}

// A client brings an eventfd for each ring: all of them together may need more than the usual
// limit.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Ends the plane's thread with the block, however that ends.
class Working {
 public:
  explicit Working(softswitch::Plane& plane) : plane_(plane), thread_([&plane] { plane.Run(); }) {}
  ~Working() {
    plane_.Stop();
    thread_.join();
  }
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;

 private:
  softswitch::Plane& plane_;
  std::thread thread_;
};

void Serve(const Options& options, const sigset_t& ends) {
  softswitch::Plane plane(options.ports, options.faults);
  {
    const Working working(plane);
    const std::chrono::milliseconds patience(static_cast<long>(options.wait * 1000));
    const softswitch::Controller controller(plane, options.listen, patience);
    std::cout << R"({"listening": ")" << controller.address() << R"("})" << std::endl;
    int number = 0;
    sigwait(&ends, &number);
  }
  if (!options.json.empty()) Write(options.json, softswitch::Report(plane, options.faults.seed));
}

}  // namespace

int main(int count, char** arguments) {
  // All threads inherit that these are waited for.
  sigset_t ends;
  sigemptyset(&ends);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, number);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  RaiseDescriptorLimit();
  try {
    Serve(Read({arguments + 1, arguments + count}), ends);
  } catch (const std::exception& error) {
    softswitch::Log(error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
