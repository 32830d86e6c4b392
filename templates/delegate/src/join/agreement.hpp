/// Agreement of the ranks of a new process group: their capabilities, and rank 0's decision for
/// all.
///
/// All ranks take the same steps in the same order, and begin none before all know how the one
/// before has ended. So all of them delegate, or none. SwitchML is not known here.
#pragma once

#include <array>
#include <iomanip>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>

#include "SwitchMLInterface.hpp"
#include "base/text.hpp"

namespace switchml_delegate {

constexpr std::size_t kMaxReasons = 4;
constexpr std::size_t kMaxHosts = 4;  // of a reason

struct SteadyClock : std::chrono::steady_clock {
  static void sleep(std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }
};

/// kController is a part of kCapabilities, and kSums the end of kProbe, on this rank alone.
enum class Step { kCapabilities, kController, kStop, kStart, kProbe, kSums, kConnect, kAgreed };

/// Names of the steps in keys of the Store and in reports.
constexpr std::array<const char*, 8> kStepNames{"capabilities", "controller", "stop",    "start",
                                                "probe",        "sums",       "connect", ""};

constexpr const char* nameOf(Step step) noexcept {
  return kStepNames[static_cast<std::size_t>(step)];
}

constexpr std::size_t kMostName = 64;

/// Bytes of what a rank sends, at most: the same for all, and more for each rank that it answers.
constexpr std::size_t kMostSent = std::size_t{1} << 16U;
constexpr std::size_t kMostForRank = 64;

/// Name of the attempt of torchrun, whose restarts may have one Store; else empty.
inline std::string attemptName() {
  const char* const count = std::getenv("TORCHELASTIC_RESTART_COUNT");
  return count == nullptr ? "" : printable(count, kMostName, '!');
}

/// Returns the value that a rank has sent. Throws std::runtime_error if that is too large.
inline const std::vector<std::uint8_t>& limited(const std::vector<std::uint8_t>& value,
                                                std::size_t most) {
  if (value.size() > most) {
    throw std::runtime_error(text("its answer has ", value.size(), " bytes, of at most ", most));
  }
  return value;
}

/// kBusy: unable because another group delegates. kLater: SWITCHML_GROUP names a later group. Of
/// all: one rank is. kMissing: a rank did not answer.
enum class Ability : std::uint8_t { kAble, kUnable, kBusy, kLater, kMissing };

/// State of the context of a rank; of all: kMixed where only some run.
enum class ContextState : std::uint8_t { kStopped, kRunning, kMixed };

/// What a rank is able to do: its terms, or the reason why it is unable.
struct Capabilities {
  Ability kind = Ability::kAble;
  std::string words;       // the terms, which must be the same on every rank, or why it is unable
  std::string where = {};  // for this rank alone, where the user has something to fix
  ContextState context = ContextState::kStopped;
  bool late = false;        // it took all of its time, as where another rank does not come
  std::uint64_t group = 1;  // SWITCHML_GROUP, which must be the same on every rank

  static Capabilities unable(const std::string& why, const std::string& where = "") {
    return {Ability::kUnable, why, where};
  }
  static Capabilities busy(const std::string& why) { return {Ability::kBusy, why, ""}; }
  static Capabilities later(std::uint64_t number, int size, std::uint64_t named) {
    return {Ability::kLater,
            text("group ", number, " of ", size, " ranks, and SWITCHML_GROUP=", named)};
  }
  bool able() const { return kind == Ability::kAble; }
};

/// Value of a key: the capabilities of one rank, or what rank 0 makes of those of all, with who is
/// not able, and why.
struct Message : Capabilities {
  std::string sources = {};              // digest of the C++ of the rank, or of rank 0
  std::vector<std::string> nonces = {};  // of the rank, or of all ranks
  bool required = false;                 // the rank, or one of them, has SWITCHML_REQUIRE set
  std::string host = {};                 // of the rank, without a space; of all: empty

  /// True if a rank requires SwitchML, no other group has it, and SWITCHML_GROUP names no later
  /// one.
  bool forbidsGloo() const { return required && kind == Ability::kUnable; }

  bool answers(int rank, const std::string& nonce) const {
    const auto place = static_cast<std::size_t>(rank);
    return place < nonces.size() && nonces[place] == nonce;
  }

  /// True if rank 0 has given up, and this rank has not answered before.
  bool misses(int rank) const { return kind == Ability::kMissing && answers(rank, kNobody); }

  std::vector<std::uint8_t> write() const {
    std::string list;
    for (const auto& nonce : nonces) {
      list += nonce + ",";
    }
    const auto out = text(sources, ' ', list, " ", kAbilities[static_cast<std::size_t>(kind)],
                          required ? 'r' : '-', kContexts[static_cast<std::size_t>(context)], host,
                          ' ', group, ' ', words.substr(0, kMostWords));
    return {out.begin(), out.end()};
  }

  /// `ranks`: so many it answers at most. Throws std::runtime_error if it is none, or too large.
  static Message read(const std::vector<std::uint8_t>& value, int ranks) {
    const auto most = static_cast<std::size_t>(ranks);
    limited(value, kMostSent + most * kMostForRank);
    std::istringstream in(std::string(value.begin(), value.end()));
    Message out;
    std::string list;
    char kind = 0;
    char required = 0;
    char context = 0;
    if (!(in >> out.sources >> list >> kind >> required >> context)) {
      throw std::runtime_error("its answer is cut short");
    }
    // Letters of other sources are no ability and no context that runs.
    out.kind = valueOf(kAbilities, kind, Ability::kUnable);
    out.context = valueOf(kContexts, context, ContextState::kStopped);
    out.required = required == 'r';
    std::istringstream nonces(list);
    for (std::string nonce; out.nonces.size() < most && std::getline(nonces, nonce, ',');) {
      out.nonces.push_back(nonce.substr(0, kMostName));
    }
    if (out.nonces.empty()) {
      throw std::runtime_error("its answer has no nonce");
    }
    std::getline(in, out.host, ' ');
    out.host = printable(out.host, kMostName, '!');
    std::string group;
    std::getline(in, group, ' ');
    out.group = std::strtoull(group.c_str(), nullptr, 10);
    out.sources = printable(out.sources, kMostName, '!');
    out.words.assign(std::istreambuf_iterator<char>(in), {});
    out.words = printable(out.words);
    return out;
  }

  static constexpr const char* kNobody = "-";  // nonce of a rank that has not answered

 private:
  static constexpr const char* kAbilities = "ynblx";  // letters of the values
  static constexpr const char* kContexts = "srm";

  template <typename Value>
  static Value valueOf(const char* letters, char letter, Value otherwise) {
    const auto* const found = std::strchr(letters, letter);
    return found == nullptr || letter == '\0' ? otherwise : static_cast<Value>(found - letters);
  }
};

inline std::string ranksText(const std::vector<int>& ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
      ++last;
    }
    out += text(i == 0 ? "" : ", ", ranks[i]);
    if (last > i) {
      out += text("-", ranks[last]);
    }
    i = last;
  }
  return out;
}

/// Names ranks, and their hosts where the group has several.
inline std::string placesText(const std::vector<int>& ranks, const std::vector<Message>& all) {
  auto out = ranksText(ranks);
  const auto elsewhere = [&](const Message& one) { return one.host != all[0].host; };
  if (std::none_of(all.begin(), all.end(), elsewhere)) {
    return out;
  }
  std::set<std::string> hosts;
  for (const auto rank : ranks) {
    hosts.insert(all[static_cast<std::size_t>(rank)].host);
  }
  hosts.erase("");  // of a rank of another version, which may say none
  const auto textOf = [](const std::string& host) { return host; };
  out += text(hosts.empty() ? "" : " on ", joined(hosts, ", ", textOf, kMaxHosts));
  return hosts.size() <= kMaxHosts ? out : text(out, " and ", hosts.size() - kMaxHosts, " more");
}

/// Reads terms, which are written as NAME=VALUE with spaces between them.
inline std::vector<std::pair<std::string, std::string>> readTerms(const std::string& terms) {
  std::istringstream in(terms);
  std::vector<std::pair<std::string, std::string>> out;
  for (std::string term; in >> term;) {
    const auto equals = std::min(term.find('='), term.size());
    out.emplace_back(term.substr(0, equals), term.substr(std::min(equals + 1, term.size())));
  }
  return out;
}

inline std::string differences(const std::string& first, const std::string& other) {
  const auto left = readTerms(first);
  const auto right = readTerms(other);
  std::string out;
  const std::map<std::string, std::string> known(left.begin(), left.end());
  for (const auto& [name, value] : right) {
    const auto found = known.find(name);
    if (found == known.end() || found->second != value) {
      out += text(out.empty() ? "" : ", ", name, "=", value, " where rank 0 has ",
                  found == known.end() ? "none" : found->second);
    }
  }
  const std::map<std::string, std::string> given(right.begin(), right.end());
  for (const auto& [name, value] : left) {
    if (given.count(name) == 0) {
      out += text(out.empty() ? "" : ", ", "no ", name, " where rank 0 has ", value);
    }
  }
  return out.empty() ? "another client library than rank 0" : out;
}

/// Decision for all ranks: able where every rank is, and on the same terms.
inline Message decide(const std::vector<Message>& all) {
  const auto is = [&all](Ability kind) {
    return std::any_of(all.begin(), all.end(), [=](const auto& one) { return one.kind == kind; });
  };
  bool sameGroup = true;
  Message out;
  std::map<std::string, std::vector<int>> reasons;
  const auto& first = all[0];
  out.sources = first.sources;
  out.context = first.context;
  out.group = first.group;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const auto& own = all[r];
    const auto rank = static_cast<int>(r);
    out.required = out.required || own.required;
    sameGroup = sameGroup && own.group == first.group;
    out.context = own.context == out.context ? out.context : ContextState::kMixed;
    out.nonces.push_back(own.nonces[0]);
    if (own.sources != first.sources) {
      reasons[text("switchml-patch with sources ", own.sources, " where rank 0 has ", first.sources,
                   "; take one version of it on all ranks")]
          .push_back(rank);
    } else if (own.group != first.group && (own.able() || own.kind == Ability::kLater)) {
      reasons[text("SWITCHML_GROUP=", own.group, " where rank 0 has ", first.group)].push_back(
          rank);
    } else if (!own.able()) {
      reasons[own.words].push_back(rank);
    } else if (first.able() && own.words != first.words) {
      reasons[differences(first.words, own.words)].push_back(rank);
    }
  }
  out.kind = is(Ability::kBusy)                 ? Ability::kBusy
             : is(Ability::kLater) && sameGroup ? Ability::kLater
             : reasons.empty()                  ? Ability::kAble
                                                : Ability::kUnable;
  const auto textOf = [&all](const auto& reason) {
    return text(placesText(reason.second, all), ": ", reason.first);
  };
  out.words = joined(reasons, "; ", textOf, kMaxReasons);
  if (reasons.size() > kMaxReasons) {
    out.words += text("; and ", reasons.size() - kMaxReasons, " more reasons");
  }
  return out;
}

/// The rounds in which the ranks of one group exchange their capabilities. In each of them every
/// rank writes one key; rank 0 reads these and writes what all others read.
///
/// A Store may have the keys of an earlier attempt. So rank 0 begins a call with a name that nobody
/// knows yet, all keys of the group are below that name, and what rank 0 writes has the nonce of
/// each rank that has answered. A rank that does not find its own has read the name of an earlier
/// call, and goes on to the next. But where rank 0 of the same attempt has given up without this
/// rank, there is no next.
template <typename Clock>
class Negotiation {
 public:
  Negotiation(const Exchange& exchange, int rank, int size, std::chrono::milliseconds timeout,
              const std::string& host, std::function<void(const std::string&)> notify)
      : exchange_(exchange),
        rank_(rank),
        size_(size),
        timeout_(std::min(timeout, kForever)),
        host_(host.empty() ? "?" : printable(host, kMostName, '!')),
        sources_(text(SWITCHML_DELEGATE_DIGEST, exchange.sources)),
        notify_(std::move(notify)),
        nonce_(random()) {
    if (rank == 0) {
      begin();
    }
  }

  /// Exchanges the capabilities, and returns the decision. Throws on every rank where one is
  /// missing.
  Message round(Step step, const Capabilities& able) {
    const char* const name = nameOf(step);
    // Gloo may take all of the group's timeout to connect the ranks, before they send anything.
    limit_ = step == Step::kConnect ? 2 * timeout_ : timeout_;
    Message own{able, sources_, {nonce_}, isSet("SWITCHML_REQUIRE"), host_};
    own.words = printable(able.words);  // the others compare it with what they have read
    auto all = rank_ == 0 ? gather(name, own) : answer(name, own);
    begun_ = Clock::now();
    if (all.kind == Ability::kMissing) {
      throw std::runtime_error(all.words);
    }
    return all;
  }

  /// A number that all ranks have after the first round, and no other group.
  std::uint64_t seed() const { return std::stoull(call_, nullptr, 16); }

  /// Name of the group, which all ranks have after the first round.
  const std::string& name() const { return call_; }

  /// Rank 0 has found the call of an earlier attempt in the Store.
  bool again() const { return again_; }

 private:
  using Milliseconds = std::chrono::milliseconds;

  static constexpr const char* kCall = "switchml/call";
  static constexpr char kAttempt = '.';  // before the attempt, in the name of a call
  /// So much longer than rank 0 waits for a rank, others wait for its decision.
  static constexpr Milliseconds kLonger = std::chrono::seconds(5);
  static constexpr Milliseconds kPatience = std::chrono::seconds(10);
  static constexpr Milliseconds kNamed = std::chrono::minutes(1);
  static constexpr Milliseconds kPoll{50};

  static std::string random() {
    std::random_device device;
    const auto word = [&device] { return std::uint64_t{device()} & UINT32_MAX; };
    return text(std::hex, std::setfill('0'), std::setw(16), word() << 32U | word());
  }

  static std::string of(const std::string& call, const char* name) {
    return text("switchml/", call, "/", name);
  }

  static std::string of(const std::string& call, const char* name, int rank) {
    return text(of(call, name), "/", rank);
  }

  std::vector<std::string> answersTo(const std::string& call, const char* name) const {
    std::vector<std::string> keys;
    for (int r = 1; r < size_; ++r) {
      keys.push_back(of(call, name, r));
    }
    return keys;
  }

  void set(const std::string& key, const std::vector<std::uint8_t>& value) {
    exchange_.set(key.c_str(), value);
  }

  void set(const std::string& key, const std::string& value) {
    set(key, std::vector<std::uint8_t>(value.begin(), value.end()));
  }

  /// False also where the Store cannot check, as one that is written in Python may not.
  bool has(const std::string& key) {
    try {
      return exchange_.has(key.c_str());
    } catch (const std::exception&) {
      checks_ = false;
      return false;
    }
  }

  /// Removes keys that nobody reads any more, where the Store can.
  void remove(const std::vector<std::string>& keys) {
    try {
      for (const auto& key : keys) {
        exchange_.remove(key.c_str());
      }
    } catch (const std::exception&) {
    }
  }

  std::vector<std::uint8_t> get(const std::string& key, Milliseconds limit) {
    constexpr Milliseconds kLeast(100);  // none at all is no limit for a Store
    const auto left = std::chrono::ceil<Milliseconds>(begun_ + limit - Clock::now());
    return exchange_.get(key.c_str(), std::max(left, kLeast));
  }

  void begin() {
    std::string earlier;
    if (has(kCall)) {
      const auto value = get(kCall, timeout_);
      earlier.assign(value.begin(), value.end());
    }
    again_ = !earlier.empty();
    call_ = attempt_.empty() ? nonce_ : text(nonce_, kAttempt, attempt_);
    set(kCall, call_);
    if (again_) {
      // Whoever has read the name of the earlier call waits there.
      const char* const first = nameOf(Step::kCapabilities);
      set(of(earlier, "next"), call_);
      if (!has(of(earlier, first))) {
        set(of(earlier, first),
            Message{Capabilities::unable("begun again"), sources_, {Message::kNobody}}.write());
      }
      read_ = answersTo(earlier, first);
      read_.insert(read_.end(), {of(earlier, first), of(earlier, "next")});
    }
  }

  Message gather(const char* name, const Message& own) {
    auto named = Clock::now() + kPatience;
    std::vector<Message> all{own};
    std::vector<int> missing;
    std::string why;
    for (int r = 1; r < size_; ++r) {
      const auto key = of(call_, name, r);
      Message answer;
      answer.nonces = {Message::kNobody};
      // Once the time is over, ranks are not waited for one by one.
      if (missing.empty()) {
        await(name, r, named);
      }
      if (missing.empty() || has(key)) {
        try {
          answer = Message::read(get(key, limit_), 1);
        } catch (const std::exception& error) {
          why = error.what();
          missing.push_back(r);
        }
      } else {
        missing.push_back(r);
      }
      all.push_back(std::move(answer));
    }
    auto out = decide(all);
    if (!missing.empty()) {
      out.kind = Ability::kMissing;
      out.words = absent(missing, why);
    }
    set(of(call_, name), out.write());
    if (missing.empty()) {
      remove(read_);  // by all ranks, before they have answered
      remove(answersTo(call_, name));
      read_ = {of(call_, name)};
    }
    return out;
  }

  /// Waits for the answer of a rank as long as the others may, and names those that are missing
  /// after ten seconds, then each minute. A Store that cannot check is left to wait by itself.
  void await(const char* name, int rank, typename Clock::time_point& named) {
    for (Milliseconds pause(1); Clock::now() < begun_ + limit_;
         pause = std::min(2 * pause, kPoll)) {
      if (has(of(call_, name, rank)) || !checks_) {
        return;
      }
      if (Clock::now() >= named) {
        named = Clock::now() + kNamed;
        std::vector<int> missing;
        for (int r = rank; r < size_; ++r) {
          if (!has(of(call_, name, r))) {
            missing.push_back(r);
          }
        }
        notify_(text(ranksText(missing), " of ", size_, missing.size() == 1 ? " has" : " have",
                     " not answered while a process group is made; are they alive, and is the same "
                     "patch, graft or plugin in their torch?"));
      }
      Clock::sleep(pause);
    }
  }

  Message answer(const char* name, const Message& own) {
    if (call_.empty()) {
      join(kCall);
    }
    for (;;) {
      set(of(call_, name, rank_), own.write());
      auto all =
          receive([&] { return Message::read(get(of(call_, name), limit_ + kLonger), size_); });
      if (all.answers(rank_, nonce_) || (all.misses(rank_) && isOfThisAttempt())) {
        return all;
      }
      join(of(call_, "next"));
    }
  }

  bool isOfThisAttempt() const {
    const auto end = call_.find(kAttempt);
    return attempt_ == (end == std::string::npos ? "" : call_.substr(end + 1));
  }

  void join(const std::string& key) {
    const auto value =
        receive([&] { return limited(get(key, timeout_ + kLonger), 3 * kMostName); });
    call_.assign(value.begin(), value.end());
    begun_ = Clock::now();
  }

  /// Reads an answer of rank 0.
  template <typename Function>
  auto receive(const Function& function) -> decltype(function()) {
    try {
      return function();
    } catch (const std::exception& error) {
      throw std::runtime_error(absent({0}, error.what()));
    }
  }

  std::string absent(const std::vector<int>& ranks, const std::string& why) const {
    return text("SwitchML: ", ranksText(ranks), " of ", size_,
                " did not answer while the group was made; ",
                ranks.size() == 1 ? "is it alive, and is its torch patched too? ("
                                  : "are they alive, and is their torch patched too? (",
                why, ")");
  }

  const Exchange& exchange_;
  const int rank_;
  const int size_;
  const Milliseconds timeout_;
  Milliseconds limit_ = timeout_;  // of all ranks together, for a step
  const std::string host_;
  const std::string sources_;
  const std::function<void(const std::string&)> notify_;
  const std::string nonce_;
  const std::string attempt_ = attemptName();
  std::string call_;  // its name is the nonce of rank 0, and the attempt where that has a name
  bool again_ = false;
  bool checks_ = true;             // the Store is able to check for a key
  std::vector<std::string> read_;  // keys, once all ranks answer the next round
  /// Time when rank 0 wrote the decision of the round before, or when this rank read it. A rank's
  /// limits between two rounds are shorter than that of the step.
  typename Clock::time_point begun_ = Clock::now();
};

}  // namespace switchml_delegate
