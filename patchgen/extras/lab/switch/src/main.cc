// switchml-switch: sums the packets of SwitchML's client libraries.
//
// Threads: main waits for a signal, one thread runs the data plane, and gRPC has its own threads.

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
#include "data_plane.h"
#include "log.h"
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

double ParseNumber(const std::string& option, const std::string& text, double highest) {
  std::size_t used = 0;
  double number = -1;
  try {
    number = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != text.size() || !(number >= 0 && number <= highest)) {
    throw std::runtime_error(option + ": " + text + " is not a number from 0 to " +
                             std::to_string(static_cast<long>(highest)));
  }
  return number;
}

Options ParseOptions(const std::vector<std::string>& arguments) {
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
      options.faults.loss = ParseNumber(name, value, 1);
    } else if (name == "--duplicate") {
      options.faults.duplicate = ParseNumber(name, value, 1);
    } else if (name == "--reorder") {
      options.faults.reorder = ParseNumber(name, value, 1);
    } else if (name == "--delay") {
      options.faults.delay = std::chrono::duration_cast<softswitch::Duration>(
          std::chrono::duration<double, std::milli>(ParseNumber(name, value, kMaxDelayMs)));
    } else if (name == "--lose-from") {
      options.faults.lose_from = static_cast<std::size_t>(ParseNumber(name, value, kMaxPort));
    } else if (name == "--lose-to") {
      options.faults.lose_to = static_cast<std::size_t>(ParseNumber(name, value, kMaxPort));
    } else if (name == "--seed") {
      options.faults.seed = static_cast<std::uint64_t>(ParseNumber(name, value, 1e15));
    } else if (name == "--wait") {
      options.wait = ParseNumber(name, value, kMaxWaitS);
    } else if (name == "--json") {
      options.json = value;
    } else {
      throw std::runtime_error(name + ": no such option");
    }
  }
  if (options.ports.empty()) throw std::runtime_error("--port: give one for each worker");
  return options;
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw std::runtime_error(path + ": cannot be written");
}

// A client sends an eventfd for each ring; all clients together may need more descriptors than the
// usual limit.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// The thread that runs the data plane, until the end of the block.
class DataPlaneThread {
 public:
  explicit DataPlaneThread(softswitch::DataPlane& plane)
      : plane_(plane), thread_([&plane] { plane.Run(); }) {}
  ~DataPlaneThread() {
    plane_.Stop();
    thread_.join();
  }
  DataPlaneThread(const DataPlaneThread&) = delete;
  DataPlaneThread& operator=(const DataPlaneThread&) = delete;

 private:
  softswitch::DataPlane& plane_;
  std::thread thread_;
};

void Serve(const Options& options, const sigset_t& ends) {
  softswitch::DataPlane plane(options.ports, options.faults);
  {
    const DataPlaneThread thread(plane);
    const std::chrono::milliseconds limit(static_cast<long>(options.wait * 1000));
    const softswitch::Controller controller(plane, options.listen, limit);
    std::cout << R"({"listening": ")" << controller.address() << R"("})" << std::endl;
    int number = 0;
    sigwait(&ends, &number);
  }
  if (!options.json.empty())
    WriteFile(options.json, softswitch::Report(plane, options.faults.seed));
}

}  // namespace

int main(int count, char** arguments) {
  // Blocked here, so that all threads inherit it, and Serve() waits for them.
  sigset_t ends;
  sigemptyset(&ends);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, number);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  RaiseDescriptorLimit();
  try {
    Serve(ParseOptions({arguments + 1, arguments + count}), ends);
  } catch (const std::exception& error) {
    softswitch::Log(error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
