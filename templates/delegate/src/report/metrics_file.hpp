/// The file of a process's metrics, for the textfile collector of node_exporter.
#pragma once

#include <chrono>
#include <ctime>
#include <functional>
#include <memory>
#include <string>

namespace switchml_delegate {

/// Beginning of the names of all files that processes of this host write.
std::string metricsFilePrefix();

/// Path of the file of this process.
std::string metricsFilePath(const std::string& directory, int rank);

/// Writes all of a file or nothing of it. All users may read it: the collector is another user.
/// Returns an errno, or 0.
int replaceFile(const std::string& path, const std::string& content);

/// Removes the files of processes of this host that have ended, if they are older than `age`
/// seconds. Without that, the collector would show them for ever.
void removeOldMetricsFiles(const std::string& directory, std::time_t age);

/// Keeps the file up to date with a thread, `swml-metrics`: writes it when it is constructed, after
/// each interval, when it is woken, and when it is destroyed. Any thread may call it. A forked
/// child has no such thread, and must not use it.
class MetricsWriter {
 public:
  /// Returns the content of the file. `last` is true for the last write. The thread of the writer
  /// calls it until the writer has been destroyed; a call that hangs outlives the writer.
  using Content = std::function<std::string(bool last)>;
  /// Called with the reason if a write fails, unless the previous write has failed too.
  using Complain = std::function<void(const std::string& reason)>;

  /// Throws std::system_error if there can be no more threads.
  MetricsWriter(std::string path, std::chrono::milliseconds interval, Content content,
                Complain complain);

  /// Calls end() with Shutdown's limit.
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  /// Writes for the last time. Waits for that within the limit: a disk, or a client library, that
  /// hangs must not keep the process from ending. The thread is detached and ends after its write.
  void end(std::chrono::milliseconds limit) noexcept;

  /// Wakes the writer's thread, which writes the file. Does not wait.
  void wake() noexcept;

 private:
  class Loop;

  const std::shared_ptr<Loop> loop_;
};

}  // namespace switchml_delegate
