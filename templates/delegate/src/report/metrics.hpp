/// Counters of this process as a Prometheus text file, for the textfile collector of node_exporter.
///
/// SwitchML is not known here.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <ctime>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/quietly.hpp"
#include "base/text.hpp"
#include "host/host_name.hpp"

namespace switchml_delegate {
namespace metrics {

using Clock = std::chrono::steady_clock;
using Labels = std::vector<std::pair<std::string, std::string>>;

/// Counts of durations up to each of some bounds. An addition is two atomic ones.
class Times {
 public:
  static constexpr std::array<double, 16> kBounds{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                                                  0.01,   0.025,   0.05,   0.1,   0.25,   0.5,
                                                  1,      2.5,     5,      10};  // seconds

  void add(Clock::duration took) noexcept {
    const auto seconds = std::chrono::duration<double>(took).count();
    const auto* const bound = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
    ++counts_[static_cast<std::size_t>(bound - kBounds.begin())];
    sum_ += nanoseconds(took);
  }

  /// Counts of those up to each bound but not up to the one before it; the last has no bound.
  std::array<std::uint64_t, kBounds.size() + 1> counts() const {
    std::array<std::uint64_t, kBounds.size() + 1> out{};
    std::copy(counts_.begin(), counts_.end(), out.begin());
    return out;
  }

  double seconds() const { return 1e-9 * static_cast<double>(sum_); }

  static std::uint64_t nanoseconds(Clock::duration took) noexcept {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(took).count());
  }

 private:
  std::array<std::atomic<std::uint64_t>, kBounds.size() + 1> counts_{};
  std::atomic<std::uint64_t> sum_{0};  // nanoseconds
};

/// Text in Prometheus' format. Each sample has the labels of the page before its own, but for those
/// without a value, which for Prometheus are none.
class Page {
 public:
  explicit Page(Labels labels) : labels_(std::move(labels)) {
    labels_.erase(std::remove_if(labels_.begin(), labels_.end(),
                                 [](const auto& label) { return label.second.empty(); }),
                  labels_.end());
    out_.imbue(std::locale::classic());
    out_.precision(std::numeric_limits<double>::digits10);
  }

  template <typename Value>
  void counter(const char* name, const char* help, Value value) {
    begin(name, help, "counter");
    sample(name, {}, value);
  }

  /// Begins a metric of which samples with labels of their own follow.
  void begin(const char* name, const char* help, const char* type) {
    out_ << "# HELP " << name << ' ' << help << "\n# TYPE " << name << ' ' << type << '\n';
  }

  template <typename Value>
  void sample(const std::string& name, const Labels& more, Value value) {
    auto labels = labels_;
    labels.insert(labels.end(), more.begin(), more.end());
    const auto all = joined(labels, ",", [](const auto& label) {
      return text(label.first, '=', inQuotes(label.second, '~', '?'));  // ASCII alone
    });
    out_ << name << (all.empty() ? "" : text('{', all, '}')) << ' ' << value << '\n';
  }

  void histogram(const std::string& name, const char* help, const Times& times) {
    begin(name.c_str(), help, "histogram");
    std::uint64_t all = 0;
    const auto counts = times.counts();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      all += counts[i];
      sample(name + "_bucket",
             {{"le", i < Times::kBounds.size() ? text(Times::kBounds[i]) : "+Inf"}}, all);
    }
    sample(name + "_sum", {}, times.seconds());
    sample(name + "_count", {}, all);
  }

  std::string str() const { return out_.str(); }

 private:
  Labels labels_;
  std::ostringstream out_;
};

/// Beginning of the names of all files that processes of this host write.
inline std::string filePrefix() {
  auto host = hostName();
  std::replace(host.begin(), host.end(), '/', '_');
  return text("switchml-", host, "-");
}

constexpr const char* kSuffix = ".prom";
constexpr const char* kStaged = ".new";  // after the suffix: the collector does not read these

inline std::string filePath(const std::string& directory, int rank) {
  return directory + "/" + filePrefix() + std::to_string(rank) + "-" + std::to_string(getpid()) +
         kSuffix;
}

/// Writes all of it, and closes the file, which may be null. False where that fails, with errno.
inline bool writeAll(std::FILE* file, const std::string& content) {
  if (file == nullptr) {
    return false;
  }
  const bool written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
  return std::fclose(file) == 0 && written;
}

/// Writes a file whole or not at all, for all users: the collector is another one. Returns what
/// went wrong, or 0.
inline int replaceFile(const std::string& path, const std::string& content) {
  const auto staged = path + kStaged;
  unlink(staged.c_str());
  auto* const file = std::fopen(staged.c_str(), "wxe");
  if (file != nullptr) {
    fchmod(fileno(file), 0644);  // a file system that has no modes refuses
  }
  if (writeAll(file, content) && rename(staged.c_str(), path.c_str()) == 0) {
    return 0;
  }
  const int error = errno;
  unlink(staged.c_str());
  return error;
}

/// Process of this host that wrote, or began to write, the file of this name; 0 for other names.
inline pid_t writerOf(const std::string& name) {
  const auto prefix = filePrefix();
  std::array<char, 10> pid{};  // nine digits: a number that is no larger than any process's
  int end = 0;
  if (name.compare(0, prefix.size(), prefix) != 0 ||
      std::sscanf(name.c_str() + prefix.size(), "%*[0-9]-%9[0-9]%n", pid.data(), &end) != 1) {
    return 0;
  }
  const auto rest = name.substr(prefix.size() + static_cast<std::size_t>(end));
  return rest == kSuffix || rest == std::string(kSuffix) + kStaged ? std::stoi(pid.data()) : 0;
}

/// Removes what processes of this host that have ended had written some time ago: the collector
/// would show it for ever.
inline void removeOld(const std::string& directory, std::time_t age) {
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

/// Thread that keeps a file up to date: it writes the file at once, every so often, when it is
/// woken, and at its end. A forked child has no such thread, and is not to use this.
class Writer {
 public:
  /// Content of the file; `last` where it is written no more. Not called once this has ended.
  using Content = std::function<std::string(bool last)>;
  /// Called with the error when a write fails, unless the one before has failed as well.
  using Complain = std::function<void(const std::string& why)>;

  /// Throws std::system_error where no thread can be had.
  Writer(std::string path, std::chrono::milliseconds every, Content content, Complain complain)
      : shared_(new Shared{std::move(path), every, std::move(content), std::move(complain)}) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the program's own threads
    const auto restore = [](const sigset_t* mask) { pthread_sigmask(SIG_SETMASK, mask, nullptr); };
    const std::unique_ptr<const sigset_t, decltype(restore)> masked(&before, restore);
    std::thread([shared = shared_] { shared->run(); }).detach();
  }

  /// Writes for the last time. A disk that does not answer does not keep the process.
  ~Writer() {
    std::unique_lock<std::mutex> lock(shared_->mutex);
    shared_->ends = true;
    shared_->changed.notify_all();
    shared_->changed.wait_for(lock, kLongest, [this] { return shared_->ended; });
    shared_->ended = true;
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Has the file written soon.
  void wake() noexcept {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    shared_->woken = true;
    shared_->changed.notify_all();
  }

 private:
  static constexpr std::chrono::seconds kLongest{2};
  static constexpr std::time_t kOld = 60;  // seconds

  struct Shared {
    std::string path;
    std::chrono::milliseconds every;
    Content content;
    Complain complain;
    std::mutex mutex{};
    std::condition_variable changed{};
    bool woken = false;
    bool ends = false;
    bool ended = false;

    void run() {
      quietly([this] { removeOld(path.substr(0, path.rfind('/')), kOld); });
      int before = 0;
      std::unique_lock<std::mutex> lock(mutex);
      while (!ended) {
        const bool last = ends;
        woken = false;
        std::string page;
        int error = ENOMEM;  // nothing else can be missing where something is thrown
        const bool made = quietly([&] { page = content(last); });
        lock.unlock();
        if (made) {
          quietly([&] { error = replaceFile(path, page); });
        }
        if (error != 0 && before == 0) {
          quietly([&] { complain(text(path, ": ", std::strerror(error))); });
        }
        before = error;
        lock.lock();
        if (last) {
          ended = true;
          changed.notify_all();
        } else {
          changed.wait_for(lock, every, [this] { return woken || ends; });
        }
      }
    }
  };

  const std::shared_ptr<Shared> shared_;
};

}  // namespace metrics
}  // namespace switchml_delegate
