// Tests of what other users and processes can do to a rank: files that they make, names that they
// hold, and a stderr that nobody reads. Prints ok.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "base/file.hpp"
#include "check.hpp"
#include "host/names.hpp"
#include "host/reserved_cores.hpp"
#include "say.hpp"

using namespace switchml_delegate;

namespace {

using std::chrono::milliseconds;

constexpr uid_t kStranger = 65534;

void equal(const std::string& found, const std::string& expected) {
  check(found == expected, "'" + found + "' is '" + expected + "'");
}

std::string problem(const std::string& path) {
  return thrown([&path] { CheckedFile(path).read(10); });
}

void files(const std::string& directory) {
  const auto path = [&directory](const char* name) { return directory + "/" + name; };
  std::ofstream(path("file")) << "0123456789";
  equal(CheckedFile(path("file")).read(10), "0123456789");
  equal(thrown([&] { CheckedFile(path("file")).read(9); }), "larger than 9 bytes");
  check(mkfifo(path("fifo").c_str(), 0600) == 0, "a FIFO");
  for (const auto& name : {path("fifo"), directory, std::string("/dev/null")}) {
    check(CheckedFile(name).isOpen(), name);
    equal(problem(name), "not a regular file");
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path("socket").copy(address.sun_path, sizeof address.sun_path - 1);
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  check(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0, "it");
  equal(CheckedFile(path("socket")).error(), "No such device or address");
  equal(CheckedFile(path("none")).error(), "");
  check(!CheckedFile(path("none")).isOpen(), "there is none");

  check(chmod(directory.c_str(), 0755) == 0 && mkdir(path("open").c_str(), 0700) == 0, "mode");
  const auto writable = [](const std::string& file) {
    return CheckedFile(file).writableByOthers();
  };
  equal(writable(path("file")), "");
  check(symlink(path("file").c_str(), path("open/link").c_str()) == 0, "a link");
  equal(writable(path("open/link")), "");
  check(chmod(path("open").c_str(), 0777) == 0, "open for all");
  check(writable(path("open/link")).find(path("open") + " can be written by others") == 0, "link");
  check(chmod(path("file").c_str(), 0620) == 0, "open for a group");
  check(writable(path("file")).find(path("file") + " can be written by others") == 0, "the file");
  // What is read is what was opened and checked, whatever has its name by then.
  const CheckedFile first(path("file"));
  check(rename(path("fifo").c_str(), path("file").c_str()) == 0, "another file");
  equal(first.read(10), "0123456789");
}

std::size_t holders(const std::string& name) { return HeldName::holders(name).size(); }

/// Runs a function in a process of another user.
template <typename Function>
void asStranger(const Function& function) {
  if (geteuid() == 0) {
    inChild([&] {
      check(setresuid(kStranger, kStranger, kStranger) == 0, "another user");
      function();
    });
  }
}

/// A process that waits for the end of the block, or of the test.
class Waiting {
 public:
  template <typename Function>
  explicit Waiting(const Function& function) {
    int back[2];
    check(pipe(ends_) == 0 && pipe(back) == 0, "pipes");
    process_ = fork();
    if (process_ == 0) {
      [[maybe_unused]] const auto kept = function();
      char byte = 0;
      close(ends_[1]);
      check(write(back[1], &byte, 1) == 1, "it has begun");
      _exit(static_cast<int>(read(ends_[0], &byte, 1)));
    }
    char byte = 0;
    close(back[1]);
    check(read(back[0], &byte, 1) == 1, "it has begun");
    close(back[0]);
  }
  ~Waiting() {
    close(ends_[1]);
    close(ends_[0]);
    int status = 1;
    check(waitpid(process_, &status, 0) == process_ && status == 0, "it ends");
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  int ends_[2];
  pid_t process_;
};

/// A forked child holds no name of its parent, and does not release one.
void namesOfAProcess() {
  const auto name = text("test/", getpid());
  const auto release = [&name] {
    HeldName held(name, HeldName::Kind::kOwned);
    check(holders(name) > 0, "it is held");
    inChild([&held] { const HeldName own(std::move(held)); });
    check(holders(name) > 0, "a child does not release it");
    return std::make_unique<Waiting>([] { return 0; });  // has the file as well
  };
  const auto child = release();
  check(holders(name) == 0, "a child does not hold it");
  {
    const Waiting other([&name] { return HeldName(name, HeldName::Kind::kOwned); });
  }
  check(holders(name) == 0, "nor does a process that has ended");
}

void namesOfStrangers() {
  const auto name = text("test/", getpid());
  const auto mine = [&name] { return HeldName(name, HeldName::Kind::kWanted).own(); };
  check(mine(), "a free name");
  {
    const Waiting other([&name] { return HeldName(name, HeldName::Kind::kOwned); });
    check(!mine(), "another process of this user owns it");
    asStranger([&] { check(!mine(), "root owns it"); });
  }
  if (geteuid() == 0) {
    for (const uid_t effective : {kStranger, uid_t{0}}) {  // a set-user-ID program
      const Waiting stranger([&] {
        check(setresuid(kStranger, effective, effective) == 0, "another user");
        return HeldName(name, HeldName::Kind::kOwned);
      });
      check(mine(), "a stranger owns nothing of this user");
    }
  }
}

/// Of processes that want the same names at once, each gets its own.
void contest() {
  constexpr std::size_t kProcesses = 8;
  const std::vector<unsigned> cores{0, 1, 2, 3, 4, 5, 6, 7};
  for (int round = 0; round < 5; ++round) {
    int begins[2];
    int takes[2];
    int ends[2];
    check(pipe(begins) == 0 && pipe(takes) == 0 && pipe(ends) == 0, "pipes");
    std::vector<pid_t> processes;
    for (std::size_t i = 0; i < kProcesses; ++i) {
      processes.push_back(fork());
      if (processes.back() == 0) {
        char byte = 0;
        close(begins[1]);
        close(ends[1]);
        check(read(begins[0], &byte, 1) == 0, "all are there");
        ReservedCores own;
        const auto taken =
            static_cast<char>(*own.reserve(text("test/", getppid()), cores, 1).begin());
        check(write(takes[1], &taken, 1) == 1 && read(ends[0], &byte, 1) == 0, "all have one");
        _exit(0);
      }
    }
    close(begins[1]);
    std::string taken(kProcesses, '\xff');
    for (auto& core : taken) {
      check(read(takes[0], &core, 1) == 1, "a core");
    }
    std::sort(taken.begin(), taken.end());
    equal(taken, std::string("\0\1\2\3\4\5\6\7", kProcesses));
    close(ends[1]);
    for (const auto process : processes) {
      int status = 1;
      check(waitpid(process, &status, 0) == process && status == 0, "it ends");
    }
    for (const int end : {begins[0], takes[0], takes[1], ends[0]}) {
      close(end);
    }
  }
}

/// A process that wants a name and goes no further does not keep another one for ever.
void contestThatDoesNotEnd() {
  const auto name = text("test/", getpid());
  HeldName one(name, HeldName::Kind::kWanted);
  HeldName other(name, HeldName::Kind::kWanted);
  check(!one.own() && !other.own(), "neither knows that it is alone");
}

void descendants() {
  const auto below = [](bool expected) {
    inChild([&] {
      check(descendsFromDelegating() == expected, "a child");
      inChild([&] { check(descendsFromDelegating() == expected, "a grandchild"); });
    });
  };
  below(false);
  {
    const auto name = delegatingName();
    check(!descendsFromDelegating(), "it is its own");
    below(true);
  }
  below(false);
  const Waiting other([] { return delegatingName(); });
  below(false);
}

void lines(const std::string& directory) {
  signal(SIGPIPE, SIG_IGN);
  const std::string whole(100'000, 'x');
  for (const bool isSocket : {false, true}) {
    int ends[2];
    check((isSocket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) == 0, "two ends");
    while (writeWithin(milliseconds(0), ends[1], "to the brim\n")) {
    }
    check(!writeWithin(milliseconds(10), ends[1], "x"), "nobody reads");
    check((fcntl(ends[1], F_GETFL) & O_NONBLOCK) == 0, "others write as before");
    std::thread reader([end = ends[0]] {
      std::array<char, 4096> block;
      while (read(end, block.data(), block.size()) > 0) {
      }
    });
    check(writeWithin(std::chrono::minutes(1), ends[1], whole), "somebody reads");
    close(ends[1]);
    reader.join();
    close(ends[0]);
  }
  int ends[2];
  check(pipe(ends) == 0 && close(ends[0]) == 0, "a pipe without a reader");
  check(!writeWithin(std::chrono::minutes(1), ends[1], "x"), "it is gone");
  close(ends[1]);
  const auto path = directory + "/log";
  std::ofstream(path) << "before\n";
  const Descriptor log(open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  check(writeWithin(milliseconds(0), log.get(), whole + "\n"), "a file");
  check(writeWithin(milliseconds(0), log.get(), "after\n"), "a file");
  equal(CheckedFile(path).read(1U << 20U), "before\n" + whole + "\nafter\n");
}

}  // namespace

int main() {
  auto made = (std::filesystem::temp_directory_path() / "strangers-XXXXXX").string();
  check(mkdtemp(made.data()) != nullptr, "a directory");
  const std::unique_ptr<const std::string, void (*)(const std::string*)> directory(
      &made, [](const std::string* path) { std::filesystem::remove_all(*path); });
  files(made);
  namesOfAProcess();
  namesOfStrangers();
  contest();
  contestThatDoesNotEnd();
  descendants();
  lines(made);
  std::puts("ok");
}
