// Tests of what a rank fills into switchml.cfg, without a library: texts, a sysfs in the directory
// of the argument, and the cores that processes of one host share out. Prints ok.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/SwitchMLHost.hpp"
#include "check.hpp"

using namespace switchml_torch;

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
    return joined(cores.take("a job", all, count), ",");
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
    equal(joined(another.take(std::string(200, 'x'), all, 4), ","), joined(all, ","));
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

/// Cores of a process whose thread OpenMP binds to one of them as soon as it is loaded.
void findsCoresOfTheProcess() {
  const auto before = ownCores();
  check(dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL) != nullptr, "OpenMP is loaded");
  const auto own = ownCores();
  const ProcessCores found;
  const bool bound = before.size() > 1;
  check(own.size() == 1, "this thread is bound");
  equal(found.note.substr(2, 4), std::getenv("OMP_PROC_BIND") ? "OMP_" : "GOMP");
  check(found.isWhole == (found.all == before), "it says where it does not know all cores");
  check(found.isWhole || std::getenv("GOMP_CPU_AFFINITY") != nullptr, "places are all cores");
  equal(joined(found.bound, ","), bound && found.isWhole ? joined(own, ",") : "");
}

void runsWith(const char* name, const std::string& value, char** argv) {
  inChild([&] {
    setenv(name, value.c_str(), /*overwrite=*/1);
    execl(argv[0], argv[0], argv[1], name, nullptr);
    _exit(1);
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3) {
    findsCoresOfTheProcess();
    return 0;
  }
  check(argc == 2, "usage: filling SYSFS");
  fillsInNumbers();
  fillsInTheEnvironment();
  keepsLongValues();
  takesAnything();
  findsAddresses();
  findsCards(argv[1]);
  sharesNoFiles();
  check(ProcessCores().all == ownCores(), "without OpenMP they are those of the thread");
  runsWith("OMP_PROC_BIND", "true", argv);
  runsWith("GOMP_CPU_AFFINITY", text(*ownCores().begin()), argv);
  sharesOutCores();
  std::puts("ok");
}
