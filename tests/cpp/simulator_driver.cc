// One worker under remote control: reads commands from stdin, answers each with one line.
#include <fcntl.h>
#include <switchml/context.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "check.hpp"
#include "counts.hpp"
#include "ends.hpp"
#include "forked.hpp"

#if !SWITCHML_SIMULATOR
#error "not the simulator's headers"
#endif

namespace {

using switchml::Context;
using switchml::DataType;
using Clock = std::chrono::steady_clock;

struct Submitted {
  std::vector<int32_t> in;
  std::vector<int32_t> out;
  std::shared_ptr<switchml::Job> job;
};

std::vector<std::unique_ptr<Submitted>> submitted;

Context& TheContext() { return Context::GetInstance(); }

DataType ReadType(std::istream& arguments) {
  std::string type;
  arguments >> type;
  return type == "float32" ? switchml::FLOAT32 : switchml::INT32;
}

std::string Name(switchml::JobStatus status) {
  static const char* const names[] = {"INIT", "QUEUED", "RUNNING", "FINISHED", "FAILED"};
  return names[status];
}

double Milliseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

std::string Start(std::istream&) {
  try {
    return TheContext().Start() ? "true" : "false";
  } catch (const std::exception& error) {
    return std::string("exception ") + error.what();
  }
}

std::string StartFrom(std::istream& arguments) {
  std::string path;
  arguments >> path;
  switchml::Config config;
  return config.LoadFromFile(path) && TheContext().Start(&config) ? "true" : "false";
}

std::string State(std::istream&) { return std::to_string(TheContext().GetContextState()); }

// reduce TYPE INPUT OUTPUT [inplace]
std::string Reduce(std::istream& arguments) {
  const DataType type = ReadType(arguments);
  std::string input, output, mode;
  arguments >> input >> output >> mode;
  std::ifstream file(input, std::ios::binary);
  std::vector<char> in((std::istreambuf_iterator<char>(file)), {});
  std::vector<char> other(in.size());
  auto& out = mode == "inplace" ? in : other;
  const auto job =
      TheContext().AllReduce(in.data(), out.data(), in.size() / 4, type, switchml::SUM);
  std::ofstream(output, std::ios::binary)
      .write(out.data(), static_cast<std::streamsize>(out.size()));
  return Name(job->GetJobStatus());
}

// submit TYPE NUMEL VALUE
std::string Submit(std::istream& arguments) {
  const DataType type = ReadType(arguments);
  uint64_t numel = 0;
  int32_t value = 0;
  arguments >> numel >> value;
  auto entry = std::make_unique<Submitted>();
  entry->in.assign(numel, value);
  entry->out.assign(numel, 0);
  entry->job =
      TheContext().AllReduceAsync(entry->in.data(), entry->out.data(), numel, type, switchml::SUM);
  submitted.push_back(std::move(entry));
  return "submitted";
}

// The status of every submitted job, and the first element where it is FINISHED.
std::string Wait(std::istream&) {
  std::string answer;
  for (const auto& entry : submitted) {
    entry->job->WaitToComplete();
    const auto status = entry->job->GetJobStatus();
    answer += (answer.empty() ? "" : " ") + Name(status);
    if (status == switchml::FINISHED && !entry->out.empty()) {
      answer += "=" + std::to_string(entry->out.front());
    }
  }
  submitted.clear();
  return answer;
}

std::string WaitForAll(std::istream&) {
  TheContext().WaitForAllJobs();
  const bool all = std::all_of(submitted.begin(), submitted.end(), [](const auto& entry) {
    return entry->job->GetJobStatus() >= switchml::FINISHED;
  });
  return all ? "all" : "some";
}

// storm THREADS JOBS NUMEL: every thread has JOBS jobs in flight. All contribute rank + 1.
std::string Storm(std::istream& arguments) {
  size_t threads = 0, jobs = 0, numel = 0;
  arguments >> threads >> jobs >> numel;
  const auto& general = TheContext().GetConfig().general_;
  const int32_t expected = general.num_workers * (general.num_workers + 1) / 2;
  std::atomic<size_t> wrong{0};
  inThreads(threads, [&](size_t) {
    std::vector<std::vector<int32_t>> data(jobs, std::vector<int32_t>(numel, general.rank + 1));
    std::vector<std::shared_ptr<switchml::Job>> all;
    for (auto& tensor : data) {
      all.push_back(TheContext().AllReduceAsync(tensor.data(), tensor.data(), numel,
                                                switchml::INT32, switchml::SUM));
    }
    for (size_t j = 0; j < jobs; ++j) {
      all[j]->WaitToComplete();
      const bool right = all[j]->GetJobStatus() == switchml::FINISHED &&
                         std::all_of(data[j].begin(), data[j].end(),
                                     [=](int32_t value) { return value == expected; });
      wrong += !right;
    }
  });
  return std::to_string(wrong) + " wrong";
}

// bench TYPE NUMEL REPEATS: the median, in microseconds.
std::string Bench(std::istream& arguments) {
  const DataType type = ReadType(arguments);
  size_t numel = 0, repeats = 0;
  arguments >> numel >> repeats;
  std::vector<float> data(numel, 1);
  std::vector<float> sums(numel);
  std::vector<double> times;
  for (size_t i = 0; i < repeats; ++i) {
    const auto begin = Clock::now();
    const auto job = TheContext().AllReduce(data.data(), sums.data(), numel, type, switchml::SUM);
    if (job->GetJobStatus() != switchml::FINISHED) {
      return "failed";
    }
    times.push_back(Milliseconds(begin) * 1000);
  }
  std::sort(times.begin(), times.end());
  return std::to_string(times[times.size() / 2]);
}

// Milliseconds that Stop() took.
std::string Stop(std::istream&) {
  const auto begin = Clock::now();
  TheContext().Stop();
  return std::to_string(Milliseconds(begin));
}

// How a child that leaves by exit() ended, and what a job was in it.
std::string Fork(std::istream&) {
  const pid_t child = fork();
  if (child == 0) {
    int32_t value = 1;
    const auto job = TheContext().AllReduce(&value, &value, 1, switchml::INT32, switchml::SUM);
    TheContext().WaitForAllJobs();
    TheContext().Stop();
    exit(job->GetJobStatus() == switchml::FAILED ? 7 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? "exit " + std::to_string(WEXITSTATUS(status)) : "signal";
}

// A child that outlives this process: it keeps no connection open.
std::string Orphan(std::istream&) {
  const pid_t child = fork();
  if (child == 0) {
    // Not this worker's pipes: who reads them waits for their end.
    const int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd <= 2; ++fd) {
      dup2(null, fd);
    }
    sleep(5);
    _exit(0);
  }
  return std::to_string(child);
}

// Each that the real library ends by aborting the process.
std::string Misuse(std::istream&) {
  int32_t value = 1;
  const auto failed = [](const std::shared_ptr<switchml::Job>& job) {
    return job->GetJobStatus() == switchml::FAILED;
  };
  auto& context = TheContext();
  const bool all =
      failed(context.AllReduce(nullptr, &value, 1, switchml::INT32, switchml::SUM)) &&
      failed(context.AllReduce(&value, &value, UINT64_MAX, switchml::INT32, switchml::SUM));
  return all ? "FAILED" : "accepted";
}

std::string Stats(std::istream&) {
  const auto& stats = TheContext().GetStats();
  return std::to_string(stats.JobsSubmitted()) + " " + std::to_string(stats.JobsFinished()) + " " +
         std::to_string(stats.NumelSubmitted());
}

std::string Packets(std::istream&) {
  const auto& stats = TheContext().GetStats();
  return std::to_string(stats.TotalPktsSent()) + " " + std::to_string(stats.CorrectPktsReceived()) +
         " " + std::to_string(stats.WrongPktsReceived()) + " " + std::to_string(stats.Timeouts());
}

std::string Interface(std::istream&) {
  const auto objection = objectionToCounts() + objectionToEnds();
  return objection.empty() ? "holds" : objection;
}

}  // namespace

int main() {
  const std::map<std::string, std::function<std::string(std::istream&)>> commands{
      {"start", Start},         {"start-from", StartFrom},
      {"packets", Packets},     {"interface", Interface},
      {"state", State},         {"reduce", Reduce},
      {"submit", Submit},       {"wait", Wait},
      {"storm", Storm},         {"bench", Bench},
      {"wait-all", WaitForAll}, {"stop", Stop},
      {"fork", Fork},           {"orphan", Orphan},
      {"misuse", Misuse},       {"stats", Stats}};
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream arguments(line);
    std::string command;
    arguments >> command;
    if (command == "quit") {
      return 0;
    }
    std::cout << commands.at(command)(arguments) << std::endl;
  }
  return 0;
}
