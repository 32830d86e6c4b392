#include "host/names.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/file.hpp"
#include "host/processes.hpp"

namespace switchml_delegate {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLongestContest = std::chrono::seconds(1);
constexpr const char* kDelegating = "delegating";

/// Returns the offset of a name's lock. It is even, because the kernel lists adjacent locks as one.
off_t offsetOf(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const char letter : "switchml/" + name) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  }
  return static_cast<off_t>(hash >> 2U << 1U);
}

/// Returns whether this user or root has started a process. Reads its real user: the effective one
/// may be that of a set-user-ID program. /proc/PID belongs to root if the process is not dumpable,
/// so its owner tells nothing.
bool isTrusted(pid_t process) {
  constexpr const char* kUid = "Uid:";
  std::ifstream file(text("/proc/", process, "/status"));
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(kUid, 0) == 0) {
      std::istringstream fields(line.substr(std::strlen(kUid)));
      uid_t user = 0;
      return fields >> user && (user == getuid() || user == 0);
    }
  }
  return false;
}

}  // namespace

HeldName::HeldName(const std::string& name, Kind kind)
    : name_(name), file_(memoryFile("switchml")) {
  struct stat status {};
  if (hold(kind) && fstat(file_.get(), &status) == 0) {
    inode_ = status.st_ino;
  }
}

bool HeldName::hold(Kind kind) const {
  struct flock lock {};
  lock.l_type = kind == Kind::kOwned ? F_RDLCK : F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = offsetOf(name_);
  lock.l_len = 1;
  return fcntl(file_.get(), F_SETLK, &lock) == 0;
}

bool HeldName::own() {
  const auto deadline = Clock::now() + kLongestContest;
  for (;;) {
    bool contested = false;
    for (const auto& holder : holders(name_)) {
      if (holder.file == inode_ || !isTrusted(holder.process)) {
        continue;
      }
      if (holder.kind == Kind::kOwned || holder.file < inode_ || Clock::now() >= deadline) {
        return false;
      }
      contested = true;
    }
    if (!contested) {
      hold(Kind::kOwned);
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::vector<HeldName::Holder> HeldName::holders(const std::string& name) {
  const auto offset = text(offsetOf(name));
  std::vector<Holder> out;
  // The kernel writes a long list in pages, so a lock that is released meanwhile hides another one.
  for (int reading = 0; reading < 2; ++reading) {
    std::ifstream file("/proc/locks");
    for (std::string line; std::getline(file, line);) {
      // "1: POSIX  ADVISORY  WRITE 4711 00:01:34 46 46"
      std::istringstream fields(line);
      std::string number, kind, mode, access, place, first;
      pid_t process = 0;
      if (fields >> number >> kind >> mode >> access >> process >> place >> first &&
          kind == "POSIX" && first == offset) {
        const auto inode = std::strtoull(place.c_str() + place.rfind(':') + 1, nullptr, 10);
        out.push_back({process, inode, access == "READ" ? Kind::kOwned : Kind::kWanted});
      }
    }
  }
  return out;
}

HeldName delegatingName() { return {kDelegating, HeldName::Kind::kOwned}; }

bool descendsFromDelegating() {
  const auto holders = HeldName::holders(kDelegating);
  if (holders.empty()) {
    return false;
  }
  for (auto process = parentOf("self"); process > 0; process = parentOf(process)) {
    const auto holds = [process](const auto& holder) { return holder.process == process; };
    if (std::any_of(holders.begin(), holders.end(), holds)) {
      return true;
    }
  }
  return false;
}

}  // namespace switchml_delegate
