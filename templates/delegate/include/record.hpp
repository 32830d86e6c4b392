/// Records that the ranks of a new process group write to its Store: what each rank can do, and
/// what rank 0 has decided for all of them.
///
/// The delegate library and the loader in torch share this header, since a rank whose library
/// cannot be opened writes and reads the same records. C++14; knows nothing of SwitchML.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lines.hpp"

namespace switchml_delegate {

constexpr std::size_t kMaxReasons = 4;
constexpr std::size_t kMaxHosts = 4;  // of a reason
constexpr std::size_t kMaxName = 64;  // characters of a name, and of a digest

/// Bytes of a record, at most: the same for all, and more for each rank that it answers.
constexpr std::size_t kMaxSent = std::size_t{1} << 16U;
constexpr std::size_t kMaxForRank = 64;

/// How much longer the other ranks wait for rank 0's decision than rank 0 waits for their records.
constexpr std::chrono::milliseconds kDecisionGrace = std::chrono::seconds(5);

constexpr const char* kNoNonce = "-";              // nonce of a rank that has not answered
constexpr const char* kCallKey = "switchml/call";  // has the name of rank 0's newest call
constexpr const char* kNextCall = "next";          // below an earlier call: the name of the next
constexpr const char* kFirstStep = "capabilities";

constexpr const char* kRank0Has = " where rank 0 has ";

// Keys of the Store, and the name of a call.

/// Key of what `name` says below a call, as a step, or the record of one rank in it.
inline std::string keyOf(const std::string& call, const std::string& name) {
  return "switchml/" + call + '/' + name;
}
inline std::string keyOf(const std::string& call, const std::string& name, int rank) {
  return keyOf(call, name) + '/' + std::to_string(rank);
}

/// Name of a host, as records have it.
inline std::string hostText(const std::string& name) {
  return name.empty() ? "?" : printable(name, kMaxName, '!');
}

/// A random number in 16 hexadecimal digits.
inline std::string randomNonce() {
  std::random_device device;
  std::string out;
  for (int i = 0; i < 16; ++i) {
    out += "0123456789abcdef"[device() % 16];
  }
  return out;
}

/// Number of the attempt of torchrun, whose restarts may have one Store; else empty.
inline std::string attemptName() {
  const char* const count = std::getenv("TORCHELASTIC_RESTART_COUNT");
  return count == nullptr ? "" : printable(count, kMaxName, '!');
}

/// Name of a call: the nonce of rank 0, and the attempt if that has a name.
inline std::string callName(const std::string& nonce) {
  const auto attempt = attemptName();
  return attempt.empty() ? nonce : nonce + '.' + attempt;
}

/// True if a call belongs to the attempt of this process.
inline bool isOfThisAttempt(const std::string& call) {
  const auto dot = call.find('.');
  return attemptName() == (dot == std::string::npos ? "" : call.substr(dot + 1));
}

/// Returns the value that a rank has sent. Throws std::runtime_error if that is too large.
inline const std::vector<std::uint8_t>& limited(const std::vector<std::uint8_t>& value,
                                                std::size_t most) {
  if (value.size() > most) {
    throw std::runtime_error("its answer has " + std::to_string(value.size()) +
                             " bytes, of at most " + std::to_string(most));
  }
  return value;
}

// What a rank can do.

/// kBusy: unable because another group delegates. kLater: SWITCHML_GROUP names a later group. Of
/// all: one rank is. kMissing: a rank did not answer.
enum class Ability : std::uint8_t { kAble, kUnable, kBusy, kLater, kMissing };

/// State of the context of a rank; of all: kMixed if only some run.
enum class ContextState : std::uint8_t { kStopped, kRunning, kMixed };

/// What a rank is able to do: its terms, or the reason why it is unable. A value of one thread.
struct Capabilities {
  Ability kind = Ability::kAble;
  std::string detail;         // the terms, which must be the same on every rank, or the reason
  std::string location = {};  // for this rank alone: the file or variable that the user can fix
  ContextState context = ContextState::kStopped;
  // The start took half of its limit or longer, as it does if another rank did not start.
  bool late = false;
  std::uint64_t firstDelegatingGroup = 1;  // SWITCHML_GROUP, the same on every rank

  static Capabilities unable(const std::string& reason, const std::string& location = "") {
    return {Ability::kUnable, reason, location};
  }
  static Capabilities busy(const std::string& reason) { return {Ability::kBusy, reason, ""}; }
  static Capabilities later(std::uint64_t number, int size, std::uint64_t named) {
    return {Ability::kLater,
            "group " + std::to_string(number) + " of " + std::to_string(size) +
                " ranks, and SWITCHML_GROUP=" + std::to_string(named),
            ""};
  }
  bool able() const { return kind == Ability::kAble; }
};

/// Value of a key: the capabilities of one rank, or rank 0's decision, which names the ranks that
/// are unable, with their reasons. A value of one thread.
struct Record : Capabilities {
  std::string sources = {};              // digest of the C++ of the rank, or of rank 0
  std::vector<std::string> nonces = {};  // of the rank, or of all ranks
  bool required = false;                 // the rank, or one of them, has SWITCHML_REQUIRE set
  std::string host = {};                 // of the rank, without a space; of all: empty

  /// True if a rank requires SwitchML, no other group has it, and SWITCHML_GROUP names no later
  /// one.
  bool forbidsGloo() const { return required && kind == Ability::kUnable; }

  bool answers(int rank, const std::string& nonce) const {
    const auto i = static_cast<std::size_t>(rank);
    return i < nonces.size() && nonces[i] == nonce;
  }

  /// True if rank 0 has given up, and this rank has not answered before.
  bool misses(int rank) const { return kind == Ability::kMissing && answers(rank, kNoNonce); }

  /// True if the decision in the call is for a rank of this nonce. Else it is an earlier call's.
  bool isFor(int rank, const std::string& nonce, const std::string& call) const {
    return answers(rank, nonce) || (misses(rank) && isOfThisAttempt(call));
  }

  std::vector<std::uint8_t> write() const {
    auto out = sources + ' ';
    for (const auto& nonce : nonces) {
      out += nonce + ',';
    }
    out += {' ', abilities()[static_cast<std::size_t>(kind)], required ? 'r' : '-',
            contexts()[static_cast<std::size_t>(context)]};
    out += host + ' ' + std::to_string(firstDelegatingGroup) + ' ' + detail.substr(0, kMaxDetail);
    return {out.begin(), out.end()};
  }

  /// `ranks`: how many it answers at most. Throws std::runtime_error if it is none, or too large.
  static Record read(const std::vector<std::uint8_t>& value, int ranks) {
    const auto most = static_cast<std::size_t>(ranks);
    limited(value, kMaxSent + most * kMaxForRank);
    std::istringstream in(std::string(value.begin(), value.end()));
    Record out;
    std::string list;
    char kind = 0;
    char required = 0;
    char context = 0;
    if (!(in >> out.sources >> list >> kind >> required >> context)) {
      throw std::runtime_error("its answer is cut short");
    }
    // Letters of other sources are no ability and no context that runs.
    out.kind = valueOf(abilities(), kind, Ability::kUnable);
    out.context = valueOf(contexts(), context, ContextState::kStopped);
    out.required = required == 'r';
    std::istringstream nonces(list);
    for (std::string nonce; out.nonces.size() < most && std::getline(nonces, nonce, ',');) {
      out.nonces.push_back(nonce.substr(0, kMaxName));
    }
    if (out.nonces.empty()) {
      throw std::runtime_error("its answer has no nonce");
    }
    std::getline(in, out.host, ' ');
    out.host = printable(out.host, kMaxName, '!');
    std::string group;
    std::getline(in, group, ' ');
    out.firstDelegatingGroup = std::strtoull(group.c_str(), nullptr, 10);
    out.sources = printable(out.sources, kMaxName, '!');
    out.detail.assign(std::istreambuf_iterator<char>(in), {});
    out.detail = printable(out.detail);
    return out;
  }

 private:
  static const char* abilities() { return "ynblx"; }  // letters of the values
  static const char* contexts() { return "srm"; }

  template <typename Value>
  static Value valueOf(const char* letters, char letter, Value otherwise) {
    const auto* const found = std::strchr(letters, letter);
    return found == nullptr || letter == '\0' ? otherwise : static_cast<Value>(found - letters);
  }
};

// The decision for all ranks.

/// "rank 3", or "ranks 0-3, 7".
inline std::string ranksText(const std::vector<int>& ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
      ++last;
    }
    out += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
    if (last > i) {
      out += "-" + std::to_string(ranks[last]);
    }
    i = last;
  }
  return out;
}

/// Names ranks, and their hosts if the group has several: "ranks 1-3 on a, b and 2 more".
inline std::string ranksOnHosts(const std::vector<int>& ranks, const std::vector<Record>& all) {
  auto out = ranksText(ranks);
  const auto elsewhere = [&](const Record& one) { return one.host != all[0].host; };
  if (std::none_of(all.begin(), all.end(), elsewhere)) {
    return out;
  }
  std::set<std::string> hosts;
  for (const auto rank : ranks) {
    hosts.insert(all[static_cast<std::size_t>(rank)].host);
  }
  hosts.erase("");  // of a rank of another version, which may say none
  std::size_t named = 0;
  for (auto host = hosts.begin(); host != hosts.end() && named < kMaxHosts; ++host, ++named) {
    out += (named == 0 ? " on " : ", ") + *host;
  }
  return hosts.size() == named ? out
                               : out + " and " + std::to_string(hosts.size() - named) + " more";
}

/// Says in what the terms of a rank differ from those of rank 0.
using Differences = std::string (*)(const std::string& first, const std::string& other);

/// Reason of a rank against the decision to delegate; empty if it has none.
inline std::string reasonAgainst(const Record& own, const Record& first, Differences differences) {
  if (own.sources != first.sources) {
    return "switchml-patch with sources " + own.sources + kRank0Has + first.sources +
           "; take one version of it on all ranks";
  }
  if (own.firstDelegatingGroup != first.firstDelegatingGroup &&
      (own.able() || own.kind == Ability::kLater)) {
    return "SWITCHML_GROUP=" + std::to_string(own.firstDelegatingGroup) + kRank0Has +
           std::to_string(first.firstDelegatingGroup);
  }
  if (!own.able()) {
    return own.detail;
  }
  return first.able() && own.detail != first.detail ? differences(first.detail, own.detail) : "";
}

/// Error of all ranks if some have not answered.
inline std::string missingText(const std::vector<int>& ranks, int size, const std::string& reason) {
  return "SwitchML: " + ranksText(ranks) + " of " + std::to_string(size) +
         " did not answer while the group was made; " +
         (ranks.size() == 1 ? "is it alive, and is its torch patched too? ("
                            : "are they alive, and is their torch patched too? (") +
         reason + ')';
}

/// Decision for all ranks: able if every rank is, and on the same terms.
inline Record decide(const std::vector<Record>& all, Differences differences) {
  const auto is = [&all](Ability kind) {
    return std::any_of(all.begin(), all.end(), [=](const Record& one) { return one.kind == kind; });
  };
  bool sameGroup = true;
  Record out;
  std::map<std::string, std::vector<int>> reasons;
  const auto& first = all[0];
  out.sources = first.sources;
  out.context = first.context;
  out.firstDelegatingGroup = first.firstDelegatingGroup;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const auto& own = all[r];
    out.required = out.required || own.required;
    sameGroup = sameGroup && own.firstDelegatingGroup == first.firstDelegatingGroup;
    out.context = own.context == out.context ? out.context : ContextState::kMixed;
    out.nonces.push_back(own.nonces[0]);
    const auto reason = reasonAgainst(own, first, differences);
    if (!reason.empty() || !own.able()) {
      reasons[reason].push_back(static_cast<int>(r));
    }
  }
  out.kind = is(Ability::kBusy)                 ? Ability::kBusy
             : is(Ability::kLater) && sameGroup ? Ability::kLater
             : reasons.empty()                  ? Ability::kAble
                                                : Ability::kUnable;
  std::size_t named = 0;
  for (auto one = reasons.begin(); one != reasons.end() && named < kMaxReasons; ++one, ++named) {
    out.detail += (named == 0 ? "" : "; ") + ranksOnHosts(one->second, all) + ": " + one->first;
  }
  if (reasons.size() > named) {
    out.detail += "; and " + std::to_string(reasons.size() - named) + " more reasons";
  }
  return out;
}

}  // namespace switchml_delegate
