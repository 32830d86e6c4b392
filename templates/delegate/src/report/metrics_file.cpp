#include "report/metrics_file.hpp"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/mutex.hpp"
#include "base/quietly.hpp"
#include "base/shutdown.hpp"
#include "base/text.hpp"
#include "base/thread.hpp"
#include "host_name.hpp"

namespace switchml_delegate {
namespace {

constexpr const char* kSuffix = ".prom";
constexpr const char* kStaged = ".new";  // after the suffix: the collector does not read these
constexpr std::time_t kOldAge = 60;      // seconds

/// Writes `content` to a file and closes it. Returns false with errno if that fails, or the file is
/// null.
bool writeAndClose(std::FILE* file, const std::string& content) {
  if (file == nullptr) {
    return false;
  }
  const bool written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
  return std::fclose(file) == 0 && written;
}

/// Returns the process of this host that has written, or begun to write, the file of this name; 0
/// for other names.
pid_t writerOf(const std::string& name) {
  const auto prefix = metricsFilePrefix();
  std::array<char, 10> pid{};  // nine digits hold the number of any process
  int end = 0;
  if (name.compare(0, prefix.size(), prefix) != 0 ||
      std::sscanf(name.c_str() + prefix.size(), "%*[0-9]-%9[0-9]%n", pid.data(), &end) != 1) {
    return 0;
  }
  const auto rest = name.substr(prefix.size() + static_cast<std::size_t>(end));
  return rest == kSuffix || rest == std::string(kSuffix) + kStaged ? std::stoi(pid.data()) : 0;
}

/// Starts a detached thread that receives no signals: they are for the program's own threads.
template <typename Function>
void startWithoutSignals(const char* name, Function function) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const auto restore = [](const sigset_t* mask) { pthread_sigmask(SIG_SETMASK, mask, nullptr); };
  const std::unique_ptr<const sigset_t, decltype(restore)> masked(&before, restore);
  startThread(name, std::move(function)).detach();
}

}  // namespace

std::string metricsFilePrefix() {
  auto host = hostName();
  std::replace(host.begin(), host.end(), '/', '_');
  return text("switchml-", host, "-");
}

std::string metricsFilePath(const std::string& directory, int rank) {
  return text(directory, "/", metricsFilePrefix(), rank, "-", getpid(), kSuffix);
}

int replaceFile(const std::string& path, const std::string& content) {
  const auto staged = path + kStaged;
  unlink(staged.c_str());
  auto* const file = std::fopen(staged.c_str(), "wxe");
  if (file != nullptr) {
    fchmod(fileno(file), 0644);  // fails on a file system that has no modes
  }
  if (writeAndClose(file, content) && rename(staged.c_str(), path.c_str()) == 0) {
    return 0;
  }
  const int error = errno;
  unlink(staged.c_str());
  return error;
}

void removeOldMetricsFiles(const std::string& directory, std::time_t age) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(directory.c_str()), closedir);
  while (const auto* const entry = open ? readdir(open.get()) : nullptr) {
    const auto pid = writerOf(entry->d_name);
    const auto path = directory + "/" + entry->d_name;
    struct stat found {};
    if (pid > 0 && kill(pid, 0) != 0 && errno == ESRCH && lstat(path.c_str(), &found) == 0 &&
        found.st_mtime + age <= std::time(nullptr)) {
      unlink(path.c_str());
    }
  }
}

/// What the writer shares with its thread, which may outlive it.
class MetricsWriter::Loop {
 public:
  Loop(std::string path, std::chrono::milliseconds interval, Content content, Complain complain)
      : path_(std::move(path)),
        interval_(interval),
        content_(std::move(content)),
        complain_(std::move(complain)) {}

  void wake() noexcept EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    woken_ = true;
    changed_.notify_all();
  }

  /// Returns when the thread has written for the last time, or after `limit`.
  void end(std::chrono::milliseconds limit) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, limit, [this]() REQUIRES(mutex_) { return ended_; });
    ended_ = true;
  }

  /// The thread. Makes the content and writes the file without the mutex, since both may hang.
  /// Writes nothing that it begins to write after end() has returned.
  void run() EXCLUDES(mutex_) {
    quietly([this] { removeOldMetricsFiles(path_.substr(0, path_.rfind('/')), kOldAge); });
    int before = 0;
    MutexLock lock(mutex_);
    while (!ended_) {
      const bool last = ends_;
      woken_ = false;
      lock.unlock();
      std::string page;
      int error = ENOMEM;  // the only reason why the content, or its copies, can throw
      const bool made = quietly([&] { page = content_(last); });
      lock.lock();
      const bool tooLate = ended_;
      lock.unlock();
      if (tooLate) {
        return;
      }
      if (made) {
        quietly([&] { error = replaceFile(path_, page); });
      }
      if (error != 0 && before == 0) {
        quietly([&] { complain_(text(path_, ": ", std::strerror(error))); });
      }
      before = error;
      lock.lock();
      if (last) {
        ended_ = true;
        changed_.notify_all();
      } else {
        changed_.wait_for(lock, interval_, [this]() REQUIRES(mutex_) { return woken_ || ends_; });
      }
    }
  }

 private:
  const std::string path_;
  const std::chrono::milliseconds interval_;
  const Content content_;
  const Complain complain_;
  Mutex mutex_;
  Condition changed_;
  bool woken_ GUARDED_BY(mutex_) = false;
  bool ends_ GUARDED_BY(mutex_) = false;   // the next write is the last one
  bool ended_ GUARDED_BY(mutex_) = false;  // nothing is written any more
};

MetricsWriter::MetricsWriter(std::string path, std::chrono::milliseconds interval, Content content,
                             Complain complain)
    : loop_(std::make_shared<Loop>(std::move(path), interval, std::move(content),
                                   std::move(complain))) {
  startWithoutSignals("swml-metrics", [loop = loop_] { loop->run(); });
}

MetricsWriter::~MetricsWriter() { end(ShutdownLimits().metrics); }

void MetricsWriter::end(std::chrono::milliseconds limit) noexcept { loop_->end(limit); }

void MetricsWriter::wake() noexcept { loop_->wake(); }

}  // namespace switchml_delegate
