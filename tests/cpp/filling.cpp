// Tests of what a rank fills into switchml.cfg, without a library: texts, a sysfs in the directory
// of the argument, and the cores that processes of one host share out. Prints ok.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "check.hpp"
#include "host/addresses.hpp"
#include "host/names.hpp"
#include "host/process_cores.hpp"
#include "host/reserved_cores.hpp"
#include "host/substitution.hpp"
#include "join/eal_options.hpp"

using namespace switchml_delegate;

namespace {

using Environment = std::map<std::string, std::string>;

void equal(const std::string& found, const std::string& expected) {
  check(found == expected, "'" + found + "' is '" + expected + "'");
}

struct Result {
  std::string text;
  std::string words;
};

/// The environment of this process has these as well, as long as this lives.
class Given {
 public:
  explicit Given(const Environment& environment) : environment_(environment) {
    for (const auto& [name, value] : environment_) {
      setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
    }
  }
  ~Given() {
    for (const auto& one : environment_) {
      unsetenv(one.first.c_str());
    }
  }

 private:
  const Environment& environment_;
};

Result fill(const std::string& whole, const Environment& environment = {}) {
  std::string filled;
  const Given given(environment);
  const auto out = fillIn(whole, {{"general.rank", 3}, {"general.num_workers", 8}}, filled);
  return {out, filled};
}

void fillsInNumbers() {
  const std::string today =
      "# of today\r\n[general]\n  rank=1 # mine\nnum_workers = 2\n\n[backend.dpdk]\ncores = 0-3";
  equal(fill(today).text, today + "\n");
  equal(fill(today).words, "");
  equal(fill("[general]\nrank = auto # of each\n num_workers=auto\n").text,
        "[general]\nrank = 3\nnum_workers = 8\n");
  equal(fill("[general]\nrank = auto\nnum_workers = 4\n").words, "rank=3");
  equal(fill("[general]\nbackend = rdma\n").text,
        "general.num_workers = 8\ngeneral.rank = 3\n[general]\nbackend = rdma\n");
  equal(fill("general.rank = auto\n[general.]\nnum_workers = 4").text,
        "general.rank = 3\n[general.]\nnum_workers = 4\n");
  equal(fill("").words, "num_workers=8 rank=3");
  const std::string elsewhere = "[backend.dummy]\nrank = auto\n#rank = 1\n";
  equal(fill(elsewhere).text, "general.num_workers = 8\ngeneral.rank = 3\n" + elsewhere);
}

void fillsInTheEnvironment() {
  const std::string numbers = "[general]\nrank = 1\nnum_workers = 2\n";
  const Environment known{{"HOST", "10.0.0.9"}, {"_1", ""}, {"WHO", "auto"}, {"DEEP", "${HOST}"}};
  equal(fill(numbers + "controller_ip = ${HOST}${_1} # ${NOT\n", known).text,
        numbers + "controller_ip = 10.0.0.9\n");
  equal(fill(numbers + "controller_ip = ${HOST}\n", known).words, "controller_ip=10.0.0.9");
  equal(fill("[general]\nnum_workers = 2\nrank = ${WHO}\n", known).words, "rank=3");
  equal(fill(numbers + "a = $HOST $ {HOST} {HOST} ${DEEP}\n", known).text,
        numbers + "a = $HOST $ {HOST} {HOST} ${HOST}\n");
  const std::map<std::string, std::string> refused{
      {"${NOT}", "key has ${NOT}, which is not set in the environment"},
      {"a ${HOST", "key has a '${' without a '}': ${HOST"},
      {"${}", "key has ${}, which is no name of a variable"},
      {"${1A}", "key has ${1A}, which is no name of a variable"},
      {"${A-b}", "key has ${A-b}, which is no name of a variable"},
      {"${${HOST}}", "key has ${${HOST}, which is no name of a variable"},
  };
  for (const auto& [value, why] : refused) {
    equal(thrown([&given = value, &known] { fill("key = " + given, known); }), why);
  }
  for (const char* value : {"a\nb", "a\r", "#"}) {
    equal(thrown([value] {
            fill("key = ${A}", {{"A", value}});
          }),
          "key has ${A}, whose value has a line break or a '#', which no value of a switchml.cfg "
          "can have");
  }
}

void refusesByteOrderMarks() {
  const std::string text = "[general]\nrank = 0\nnum_workers = 2\n";
  for (const char* mark : {"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"}) {
    equal(thrown([&] { fill(mark + text); }),
          std::string("it is UTF-") + (mark[0] == '\xef' ? "8" : "16") +
              " with a byte order mark; save it as UTF-8 without one");
  }
  equal(fill(text + "# \xef\xbb\xbf\n").text, text + "# \xef\xbb\xbf\n");
}

void keepsLongValues() {
  const std::string large(100'000, 'x');
  const auto filled = fill("[general]\nrank = 0\nnum_workers = 2\na = ${A}\n", {{"A", large}});
  check(filled.text.find("a = " + large + "\n") != std::string::npos, "a long value");
  equal(filled.words, "a=" + large.substr(0, 80) + "...");
  equal(thrown([&large] { fill("a = ${" + large); }),
        "a has a '${' without a '}': ${" + large.substr(0, 78) + "...");
  equal(thrown([&large] { fill("a = ${" + large + "}"); }),
        "a has ${" + large.substr(0, 80) + "...}, which is not set in the environment");
}

/// No text makes it fail in another way, and one that it has filled in has nothing left to fill.
void takesAnything() {
  const std::vector<std::string> parts{
      "[general]", "[",  "]",    "[]",          "rank",        "num_workers", "=",       "auto",
      "${",        "}",  "${A}", "${B}",        "#",           "\n",          "\r",      " ",
      "general.",  "$",  "{",    ".",           "a",           "\t",          "backend", "A=",
      "=A",        "\n", "\n",   "rank = auto", "\xef\xbb\xbf"};
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string whole;
    for (auto left = random() % 24; left > 0; --left) {
      whole += parts[random() % parts.size()];
    }
    try {
      const auto once = fill(whole, {{"A", "1"}, {"B", " auto "}});
      equal(fill(once.text).text, once.text);
      equal(fill(once.text).words, "");
    } catch (const std::invalid_argument&) {
    }
  }
}

void findsAddresses() {
  const Interfaces known{{"lo", "127.0.0.1"}, {"eth0", "10.0.0.4"}, {"ib0", ""}};
  const auto address = [&known](const char* value, const Card& card, const char* other) {
    return workerAddress(value, known, card, other);
  };
  equal(address("10.1.1.1", {}, ""), "10.1.1.1");
  equal(address("interface:eth0", {}, ""), "10.0.0.4");
  equal(address("interface:lo", {}, ""), "127.0.0.1");
  equal(address("auto", {"", "eth0"}, "10.9.9.9"), "10.0.0.4");
  equal(address("auto", {}, "10.9.9.9"), "10.9.9.9");
  equal(thrown([&] { address("interface:ib0", {}, ""); }),
        "worker_ip = interface:ib0: ib0 has no IPv4 address; give it one");
  equal(thrown([&] {
          address("auto", {"", "ib0"}, "10.9.9.9");
        }),
        "worker_ip = auto: ib0 has no IPv4 address; give it one");
  equal(thrown([&] { address("interface:eth9", {}, ""); }),
        "worker_ip = interface:eth9: there is no interface eth9; there are eth0, ib0, lo");
  equal(thrown([&] { address("interface:", {}, ""); }),
        "worker_ip = interface:: there is no interface ; there are eth0, ib0, lo");
  for (const char* other : {"", "127.0.0.1"}) {
    check(thrown([&] { address("auto", {}, other); }).find("set it to an address or") !=
              std::string::npos,
          "the loopback leads to no switch");
  }
  const auto here = interfaces();
  check(here.count("lo") == 1, "the loopback is an interface of each host");
  equal(sourceAddress("127.0.0.1"), "127.0.0.1");
  equal(sourceAddress("::1"), "");
  equal(sourceAddress(std::string(100'000, 'x')), "");
}

void findsCards(const std::string& sysfs) {
  const std::string pci = sysfs + "/bus/pci/devices/";
  const auto card = [&sysfs](const char* options) { return namedCard(options, sysfs); };
  for (const char* options :
       {"-a 0000:81:00.0", "--allow 81:00.0,mode=1 -m 64", "-w81:00.0", "--allow=0000:81:00.0"}) {
    equal(card(options).directory, pci + "0000:81:00.0");
    equal(card(options).interface, "ens1f0");
  }
  equal(card("-a 0000:82:00.0").interface, "");
  equal(card("--vdev=net_af_packet0,iface=ens1f0").directory, sysfs + "/class/net/ens1f0/device");
  equal(card("--vdev net_af_packet0,iface=ens1f0,qpairs=2").interface, "ens1f0");
  for (const char* options : {"", "-a", "-a 81:00.0 -a 82:00.0", "--vdev=net_memif0,socket=/a"}) {
    equal(card(options).directory, "");
  }
  const auto near = parseCores(firstLine(card("-a 81:00.0").directory + "/local_cpulist"));
  equal(joined(near, ","), "2,3,6");
  equal(joined(inOrder({0, 1, 2, 5, 6}, near), ","), "2,6,0,1,5");
  equal(joined(inOrder({0, 1, 2, 5, 6}, near, {2}), ","), "6,0,1,5,2");
  equal(joined(inOrder({0, 1}, {}), ","), "0,1");
  equal(firstLine(card("-a 82:00.0").directory + "/local_cpulist"), "");
  equal(joined(parseCores("2-1,x"), ","), "");
}

void sharesNoFiles() {
  equal(withoutSharedFiles(""), "--in-memory");
  equal(withoutSharedFiles("--no-shconf -m 64"), "--in-memory --no-shconf -m 64");
  equal(withoutSharedFiles("--no-huge -m 64"), "--no-shconf --no-huge -m 64");
  for (const char* options :
       {"--no-huge --no-shconf", "--in-memory", "-m 64 --legacy-mem", "--huge-unlink=never"}) {
    equal(withoutSharedFiles(options), options);
  }
}

/// Numbers that no core has, so that nobody else has them either.
void sharesOutCores() {
  const unsigned first = 1'000'000 + static_cast<unsigned>(getpid()) * 8;
  const std::vector<unsigned> all{first, first + 1, first + 2, first + 3};
  const auto reserve = [&all](ReservedCores& cores, std::size_t count) {
    return joined(cores.reserve("a job", all, count), ",");
  };
  {
    ReservedCores mine;
    equal(reserve(mine, 2), joined(std::vector<unsigned>{first, first + 1}, ","));
    inChild([&] {
      ReservedCores other;
      equal(reserve(other, 2), joined(std::vector<unsigned>{first + 2, first + 3}, ","));
      ReservedCores third;
      equal(thrown([&] { reserve(third, 1); }),
            text("cores = auto: the client's threads need 1 core, and this process may use 4, of "
                 "which others have ",
                 joined(all, ","), "; set num_worker_threads, or give the ranks more cores"));
    });
    ReservedCores another;
    equal(joined(another.reserve(std::string(200, 'x'), all, 4), ","), joined(all, ","));
    ReservedCores more;
    check(thrown([&] { reserve(more, 5); }).find("need 5 cores, and") != std::string::npos,
          "more than there are");
  }
  inChild([&] {
    ReservedCores other;
    equal(reserve(other, 4), joined(all, ","));
  });
  // Those that are kept are the process's, and not those of its children.
  int pipes[2];
  check(pipe(pipes) == 0, "a pipe");
  inChild([&] {
    for (int group = 0; group < 2; ++group) {
      ReservedCores cores;
      reserve(cores, 2);
      cores.keep();
    }
    ReservedCores other;
    check(!thrown([&] { reserve(other, 1); }).empty(), "they are kept");
    if (fork() == 0) {
      char wait = 0;
      close(pipes[1]);
      check(read(pipes[0], &wait, 1) == 0, "the end of the test");
      _exit(0);
    }
  });
  ReservedCores after;
  until([&] { return thrown([&] { reserve(after, 4); }).empty(); });  // the grandchild has begun
  close(pipes[1]);
}

/// A /proc that is made, of processes whose parents have the number before theirs.
class Proc {
 public:
  Proc() {
    std::string name = "/tmp/switchml-proc-XXXXXX";
    check(mkdtemp(name.data()) != nullptr, "a directory");
    root_ = name;
  }
  ~Proc() { std::filesystem::remove_all(root_); }

  /// A child of the last process, with the cores of each of its threads.
  Proc& add(const std::vector<std::string>& threads, const std::string& library = "",
            const std::string& variables = "") {
    const auto directory = text(root_, "/", ++last_);
    for (std::size_t thread = 0; thread < threads.size(); ++thread) {
      const auto task = text(directory, "/task/", last_ + 1000 * thread);
      std::filesystem::create_directories(task);
      std::ofstream(task + "/status") << "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t"
                                      << threads[thread] << "\nvoluntary_ctxt_switches:\t1\n";
    }
    std::filesystem::create_directories(directory);
    std::ofstream(directory + "/stat") << last_ << " (a) b) S " << last_ - 1 << " 1 1 0";
    std::ofstream(directory + "/maps")
        << "7f00-7f01 r-xp 00 00:00 1  /lib/libc.so.6\n7f02-7f03 r-xp 00 00:00 2  " << library;
    std::ofstream(directory + "/environ")
        << "A=1" << '\0' << "EMPTY" << '\0' << variables << '\0' << "Z=OMP_PLACES=cores";
    return *this;
  }

  /// Cores before a binding that a child of the last process has inherited, and its variables.
  std::string binding(const std::string& own, const std::string& allows = "0-15") const {
    const auto found = inheritedBinding(parseCores(own), parseCores(allows), last_, root_);
    return found.allowed.empty() ? "none"
                                 : text(joined(found.allowed, ","), " by ", found.variables);
  }

 private:
  std::string root_;
  int last_ = 0;
};

void findsInheritedBindings() {
  constexpr const char* kRuntime = "/opt/torch/lib/libgomp-a34b3233.so.1";
  constexpr const char* kTrue = "OMP_PROC_BIND=true";
  const auto launched = [&](const std::string& own, const std::string& variable,
                            const char* runtime = kRuntime) {
    return Proc().add({"0-15"}).add({"0-7"}).add({own}, runtime, variable).binding(own);
  };
  const std::string eight = "0,1,2,3,4,5,6,7 by ";
  equal(launched("0", kTrue), eight + kTrue);
  equal(launched("0,8", kTrue), "none");  // the shell may not run on 8
  equal(launched("2", "GOMP_CPU_AFFINITY=2 1"), eight + "GOMP_CPU_AFFINITY=2 1");
  equal(launched("0", "OMP_PLACES=cores"), eight + "OMP_PLACES=cores");
  equal(launched("0", "KMP_AFFINITY=compact", "/opt/lib/libiomp5.so"),
        eight + "KMP_AFFINITY=compact");
  // The second place, or no binding at all: the launcher means these cores.
  equal(launched("4", kTrue), "none");
  equal(launched("0", "OMP_PROC_BIND=False"), "none");
  equal(launched("0", "KMP_AFFINITY=granularity=fine,none"), "none");
  equal(launched("0", "NOT_OMP_PROC_BIND=true"), "none");
  equal(launched("0", kTrue, "/lib/libm.so.6"), "none");
  // A shell between, the first process of a container, a parent that is not shown.
  equal(Proc().add({"0-3"}).add({"0"}, kRuntime, kTrue).add({"0"}).binding("0"),
        text("0,1,2,3 by ", kTrue));
  equal(Proc().add({"0"}, kRuntime, kTrue).binding("0", "0-2"), text("0,1,2 by ", kTrue));
  equal(Proc().add({}).add({"0"}, kRuntime, kTrue).binding("0", "0-2"), text("0,1,2 by ", kTrue));
  // The parent has more cores than the kernel allows here; threads with others; a team of OpenMP.
  equal(Proc().add({"0-15"}).add({"0"}, kRuntime, kTrue).binding("0", "0-1"),
        text("0,1 by ", kTrue));
  equal(Proc().add({"0", "1-2"}).add({"1", "0", "2"}, kRuntime, kTrue).binding("0"), "none");
  equal(Proc().add({"3", "0-1"}).add({"1", "0", "2"}, kRuntime, kTrue).binding("0"),
        text("0,1,3 by ", kTrue));
  // A shell that taskset has started binds all that it starts; ranks have cores of their own.
  equal(Proc().add({"0-15"}).add({"0"}).add({"0"}, kRuntime, kTrue).binding("0"), "none");
  equal(Proc().add({"0-15"}).add({"0"}, kRuntime, kTrue).binding("8-15"), "none");
  equal(Proc().binding("0"), "none");
}

void loadOpenMp() {
  check(dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL) != nullptr, "OpenMP is loaded");
  check(ownCores().size() == 1, "this thread is bound");
}

/// Cores of a process whose thread OpenMP binds to one of them as soon as it is loaded.
void findsCoresOfTheProcess(const std::string& name) {
  const auto before = ownCores();
  loadOpenMp();
  const auto own = ownCores();
  const ProcessCores found;
  check(found.all == before || !found.reason.empty(), "it says where it does not know all cores");
  check(found.all == before || name == "GOMP_CPU_AFFINITY", "places are all cores");
  equal(joined(found.bound, ","), found.all == own ? "" : joined(own, ","));
  equal(found.note, found.all == own ? ""
                                     : text(" (a thread is bound there by ", name, "=",
                                            std::getenv(name.c_str()), ")"));
}

void runProgram(const char* program, const std::vector<std::string>& arguments) {
  inChild([&] {
    std::vector<const char*> all{program};
    for (const auto& one : arguments) {
      all.push_back(one.c_str());
    }
    all.push_back(nullptr);
    execv(program, const_cast<char* const*>(all.data()));
    _exit(1);
  });
}

void runWith(const char* program, const char* name, const std::string& value,
             const std::vector<std::string>& arguments) {
  const Environment environment{{name, value}};
  const Given given(environment);
  runProgram(program, arguments);
}

/// Runs the child of a launcher that has one core, by OpenMP or by itself.
void launch(const char* program, bool byOpenMp) {
  const auto before = ownCores();
  if (byOpenMp) {
    loadOpenMp();
  } else {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(*before.begin(), &one);
    check(sched_setaffinity(0, sizeof one, &one) == 0, "one core");
  }
  runProgram(program, {"launched", joined(byOpenMp ? before : ownCores(), ",")});
}

void isLaunched(const std::string& expected) {
  const auto own = ownCores();
  check(own.size() == 1, "the core of the launcher");
  const ProcessCores found;
  equal(joined(found.all, ","), expected);
  check(found.bound == (found.all == own ? CoreSet{} : own), "that of its thread");
  check(found.note.empty() == (found.all == own), "what bound it");
  const auto allowed = allowedCores().size();
  equal(found.reason, found.all.size() == allowed
                          ? ""
                          : text(" (the kernel allows ", allowed,
                                 ": unset OMP_PROC_BIND=true if it has bound this process or its "
                                 "launcher)"));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc == 3 ? argv[1] : "";
  if (mode == "bound") {
    findsCoresOfTheProcess(argv[2]);
    return 0;
  }
  if (mode == "launched") {
    isLaunched(argv[2]);
    return 0;
  }
  if (mode == "launch") {
    launch(argv[0], std::string(argv[2]) == "OpenMP");
    return 0;
  }
  check(argc == 2, "usage: filling SYSFS");
  fillsInNumbers();
  fillsInTheEnvironment();
  refusesByteOrderMarks();
  keepsLongValues();
  takesAnything();
  findsAddresses();
  findsCards(argv[1]);
  sharesNoFiles();
  check(ProcessCores().all == ownCores(), "without OpenMP they are those of the thread");
  runWith(argv[0], "OMP_PROC_BIND", "true", {"bound", "OMP_PROC_BIND"});
  const auto first = text(*ownCores().begin());
  runWith(argv[0], "GOMP_CPU_AFFINITY", first, {"bound", "GOMP_CPU_AFFINITY"});
  findsInheritedBindings();
  for (const char* by : {"OpenMP", "taskset"}) {
    runWith(argv[0], "OMP_PROC_BIND", "true", {"launch", by});
  }
  sharesOutCores();
  std::puts("ok");
}
