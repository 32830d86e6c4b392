// The file of metrics without a delegate: its text, how it is replaced, its thread and its end.
// The argument is an empty directory, in which page.prom is left. Prints ok.
#include <signal.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <future>
#include <iterator>

#include "check.hpp"
#include "forked.hpp"
#include "join/settings.hpp"
#include "report/metrics_file.hpp"
#include "report/metrics_page.hpp"

namespace {

using namespace switchml_delegate;
using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr auto kNever = hours(24);

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

MetricsWriter::Complain never() {
  return [](const std::string& why) { check(false, "a complaint: " + why); };
}

/// Thousands are grouped, and the decimal point is a comma.
struct Odd : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

void times() {
  DurationHistogram times;
  for (const auto took : {0, 100, 101, 250, 251, 10'000'000, 10'000'001}) {
    times.add(microseconds(took));
  }
  const auto counts = times.counts();
  check(counts[0] == 2 && counts[1] == 2 && counts[2] == 1, "a bound is in its bucket");
  check(counts[15] == 1 && counts[16] == 1, "the last bound, and beyond");
  check(std::abs(times.seconds() - 20.000703) < 1e-9, "the sum");

  DurationHistogram shared;
  inThreads(3, [&shared](std::size_t /*number*/) {
    for (int i = 0; i < 1000; ++i) {
      shared.add(milliseconds(i % 7));
      shared.counts();
    }
  });
  std::uint64_t all = 0;
  for (const auto count : shared.counts()) {
    all += count;
  }
  check(all == 3000, "each is counted once");
}

std::string page() {
  const auto before = std::locale::global(std::locale(std::locale::classic(), new Odd));
  MetricsPage page({{"host", "a\"b\\c\nd\xff"}, {"rank", "1"}, {"job_id", ""}});
  page.begin("one_total", "A count.", "counter");
  page.sample("one_total", {}, std::uint64_t{12'345'678'901'234'567});
  page.begin("two_total", "Seconds.", "counter");
  page.sample("two_total", {}, 1234.5);
  page.begin("three", "Samples with labels.", "gauge");
  page.sample("three", {{"state", "x"}}, std::uint64_t{1});
  page.sample("three", {{"state", "y"}}, std::uint64_t{0});
  DurationHistogram times;
  times.add(microseconds(300));
  times.add(hours(1));
  page.begin("four_seconds", "Times.", "histogram");
  page.samples("four_seconds", times);
  std::locale::global(before);
  return page.str();
}

/// node_exporter is another user.
void readable(const std::string& directory) {
  const auto path = directory + "/page.prom";
  for (const mode_t mask : {0077, 0027, 0002}) {
    const auto before = umask(mask);
    check(replaceFile(path, page()) == 0, "a page");
    umask(before);
    struct stat found {};
    check(stat(path.c_str(), &found) == 0 && (found.st_mode & 07777) == 0644, "all may read it");
  }
}

void jobs() {
  const std::vector<std::pair<const char*, const char*>> launchers{
      {"TORCHELASTIC_RUN_ID", "7f3a"}, {"SLURM_JOB_ID", "4711"}, {"SWITCHML_JOB", "resnet \"50\""}};
  for (const auto& [name, value] : launchers) {
    unsetenv(name);
  }
  check(jobName().empty(), "no launcher");
  setenv("TORCHELASTIC_RUN_ID", "none", 1);
  check(jobName().empty(), "torchrun without a name");
  for (const auto& [name, value] : launchers) {
    setenv(name, value, 1);
    check(jobName() == value, "each goes before the one before it");
  }
  setenv("SWITCHML_JOB", "", 1);
  check(jobName() == "4711", "an empty one is none");
}

/// Whoever reads the file, whenever, finds one whole page.
void whole(const std::string& directory) {
  const auto path = directory + "/whole.prom";
  std::atomic<unsigned> made{0};
  {
    MetricsWriter writer(
        path, milliseconds(0),
        [&made](bool last) {
          ++made;
          return std::string(50'000, last ? 'z' : static_cast<char>('a' + made % 25));
        },
        never());
    until([&path] { return exists(path); });
    for (int reads = 0; reads < 100 || made < 40; ++reads) {
      const auto found = read(path);
      check(found.size() == 50'000 && found == std::string(50'000, found[0]), "one page, whole");
    }
  }
  check(read(path) == std::string(50'000, 'z'), "the last page");
  check(!exists(path + ".new"), "nothing else is left");
  const auto end = made.load();
  std::this_thread::sleep_for(milliseconds(20));
  check(made == end, "no page after the end");
}

void woken(const std::string& directory) {
  const auto path = directory + "/woken.prom";
  std::atomic<int> value{1};
  MetricsWriter writer(
      path, kNever, [&value](bool) { return std::to_string(value); }, never());
  until([&path] { return read(path) == "1"; });
  value = 2;
  writer.wake();
  until([&path] { return read(path) == "2"; });
}

/// One line for each time that it begins to fail.
void failing(const std::string& directory) {
  const auto place = directory + "/gone";
  const auto path = place + "/failing.prom";
  std::atomic<int> made{0};
  std::atomic<int> complaints{0};
  std::string why;
  {
    MetricsWriter writer(
        path, milliseconds(1), [&made](bool) { return std::to_string(++made); },
        [&](const std::string& told) {
          why = told;
          ++complaints;
        });
    for (int round = 1; round <= 2; ++round) {
      const auto begun = made.load();
      until([&] { return made > begun + 5 && complaints == round; });
      check(mkdir(place.c_str(), 0700) == 0, "the directory");
      until([&path] { return exists(path); });
      until([&] { return unlink(path.c_str()) == 0 && rmdir(place.c_str()) == 0; });
    }
    until([&] { return complaints == 3; });
  }
  check(why == path + ": No such file or directory", why);
}

/// A thread that does not get on keeps nobody, and asks for nothing once the writer has ended.
void stuck(const std::string& directory) {
  std::promise<void> reached;
  std::promise<void> goes;
  auto going = goes.get_future().share();
  std::atomic<bool> ended{false};
  auto thread = std::make_shared<std::promise<void>>();
  auto left = thread->get_future();
  {
    MetricsWriter writer(
        directory + "/none/stuck.prom", milliseconds(1),
        [&ended, owned = std::move(thread)](bool) {
          check(!ended, "a page after the end");
          return std::string();
        },
        [&reached, going](const std::string& /*why*/) {
          reached.set_value();
          going.wait();
        });
    reached.get_future().wait();
  }
  ended = true;
  goes.set_value();
  left.wait();  // the thread has ended, and with it what it had
}

/// A client library that hangs while the page is made keeps nobody, and the page is not written.
void hung(const std::string& directory) {
  const auto path = directory + "/hung.prom";
  std::promise<void> reached;
  std::promise<void> goes;
  auto going = goes.get_future().share();
  auto thread = std::make_shared<std::promise<void>>();
  auto left = thread->get_future();
  {
    MetricsWriter writer(
        path, kNever,
        [&reached, going, owned = std::move(thread)](bool) {
          reached.set_value();
          going.wait();
          return std::string("late");
        },
        never());
    reached.get_future().wait();
    writer.wake();
    writer.end(milliseconds(1));
  }
  goes.set_value();
  left.wait();
  check(!exists(path), "no page after the end");
}

/// Signals are for the program's own threads.
void signals(const std::string& directory) {
  const auto path = directory + "/signals.prom";
  std::string blocked;
  auto writer = std::make_unique<MetricsWriter>(
      path, kNever,
      [&blocked](bool last) {
        std::ifstream status("/proc/thread-self/status");
        for (std::string line; !last && std::getline(status, line);) {
          blocked = line.compare(0, 7, "SigBlk:") == 0 ? line.substr(8) : blocked;
        }
        return std::string("1");
      },
      never());
  until([&path] { return exists(path); });
  writer.reset();
  const auto bits = std::stoull(blocked, nullptr, 16);
  check((bits >> (SIGINT - 1) & 1U) != 0 && (bits >> (SIGCHLD - 1) & 1U) != 0, blocked);
  sigset_t own;
  check(pthread_sigmask(SIG_SETMASK, nullptr, &own) == 0 && sigismember(&own, SIGINT) == 0,
        "the thread that makes it has its signals");
}

void old(const std::string& directory) {
  const auto gone = std::to_string(inChild([] {}));
  const auto own = std::to_string(getpid());
  const auto mine = directory + "/" + metricsFilePrefix();
  const std::vector<std::string> removed{mine + "0-" + gone + ".prom",
                                         mine + "12-" + gone + ".prom.new"};
  const std::vector<std::string> kept{
      mine + "0-" + own + ".prom",       mine + "0-" + gone + ".prom.txt",
      mine + "-1-" + gone + ".prom",     mine + "0x" + gone + ".prom",
      mine + "0-4000000000.prom",        mine + "0-.prom",
      mine + "1-0-" + gone + ".prom",    directory + "/switchml-another host-0-" + gone + ".prom",
      directory + "/0-" + gone + ".prom"};
  for (const auto* const paths : {&removed, &kept}) {
    for (const auto& path : *paths) {
      std::ofstream(path) << "1";
    }
  }
  removeOldMetricsFiles(directory, 3600);
  check(exists(removed[0]), "a file that was written just now");
  removeOldMetricsFiles(directory, 0);
  for (const auto& path : removed) {
    check(!exists(path), "removed: " + path);
  }
  for (const auto& path : kept) {
    check(exists(path), "kept: " + path);
    unlink(path.c_str());
  }
  check(metricsFilePath(directory, 3) == mine + "3-" + own + ".prom", "the name");
}

std::string refused(const std::string& given) {
  setenv("SWITCHML_METRICS", given.c_str(), 1);
  MetricsTarget target;
  const auto wrong = target.read();
  check(target.directory.empty(), "no directory where it is refused");
  return wrong;
}

void targets(const std::string& directory) {
  unsetenv("SWITCHML_METRICS");
  MetricsTarget none;
  check(none.read().empty() && none.directory.empty() && none.seconds == 10, "no variable");
  check(refused("").empty(), "an empty one");
  if (geteuid() == 0) {
    check(seteuid(65534) == 0, "another user");
  }
  const auto wrong = refused("/");
  check(wrong == "SWITCHML_METRICS is '/', where no file can be made: Permission denied", wrong);
  check(geteuid() == getuid() || seteuid(0) == 0, "the first user");

  check(chdir(directory.c_str()) == 0, "the directory");
  setenv("SWITCHML_METRICS", ".", 1);
  setenv("SWITCHML_METRICS_SECONDS", "3", 1);
  MetricsTarget here;
  check(here.read().empty() && here.seconds == 3, "a number of seconds");
  check(here.directory[0] == '/' && exists(here.directory + "/page.prom"), "an absolute path");
  setenv("SWITCHML_METRICS_SECONDS", "99999999999999", 1);
  check(here.read().empty() && here.seconds == 86400, "a day at most");
}

}  // namespace

int main(int argc, char** argv) {
  check(argc == 2, "usage: metrics DIRECTORY");
  const std::string directory = argv[1];
  times();
  readable(directory);
  jobs();
  whole(directory);
  woken(directory);
  failing(directory);
  stuck(directory);
  hung(directory);
  signals(directory);
  old(directory);
  targets(directory);
  std::puts("ok");
  return 0;
}
