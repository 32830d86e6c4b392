#include "join/agreement.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "base/environment.hpp"
#include "base/limits.hpp"
#include "base/text.hpp"

namespace switchml_delegate {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstNotice = std::chrono::seconds(10);  // of ranks that are missing
constexpr milliseconds kNextNotice = std::chrono::minutes(1);
constexpr milliseconds kLongestPoll{50};
constexpr milliseconds kLeastWait{100};  // a Store takes no wait at all for one without a limit

class SystemClock final : public AgreementClock {
 public:
  Time now() const override { return std::chrono::steady_clock::now(); }
  void sleep(milliseconds time) const override { std::this_thread::sleep_for(time); }
};

std::string differences(const std::string& first, const std::string& other) {
  const auto left = readTerms(first);
  const auto right = readTerms(other);
  std::string out;
  const std::map<std::string, std::string> known(left.begin(), left.end());
  for (const auto& [name, value] : right) {
    const auto found = known.find(name);
    if (found == known.end() || found->second != value) {
      out += text(out.empty() ? "" : ", ", name, "=", value, kRank0Has,
                  found == known.end() ? "none" : found->second);
    }
  }
  const std::map<std::string, std::string> given(right.begin(), right.end());
  for (const auto& [name, value] : left) {
    if (given.count(name) == 0) {
      out += text(out.empty() ? "" : ", ", "no ", name, kRank0Has, value);
    }
  }
  return out.empty() ? "another client library than rank 0" : out;
}

/// Reads an answer of rank 0 of a group of `size` ranks.
template <typename Function>
auto readFromRank0(int size, const Function& function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::exception& error) {
    throw std::runtime_error(missingText({0}, size, error.what()));
  }
}

}  // namespace

const AgreementClock& AgreementClock::system() {
  static const auto& clock = *new SystemClock;
  return clock;
}

std::vector<std::pair<std::string, std::string>> readTerms(const std::string& terms) {
  std::istringstream in(terms);
  std::vector<std::pair<std::string, std::string>> out;
  for (std::string term; in >> term;) {
    const auto equals = std::min(term.find('='), term.size());
    out.emplace_back(term.substr(0, equals), term.substr(std::min(equals + 1, term.size())));
  }
  return out;
}

Record decide(const std::vector<Record>& all) { return decide(all, differences); }

Negotiation::Negotiation(const Exchange& exchange, int rank, int size, Milliseconds timeout,
                         const std::string& host, std::function<void(const std::string&)> notify,
                         const AgreementClock& clock)
    : exchange_(exchange),
      rank_(rank),
      size_(size),
      timeout_(std::min(timeout, kForever)),
      host_(host.empty() ? "?" : printable(host, kMostName, '!')),
      sources_(text(SWITCHML_DELEGATE_DIGEST, exchange.sources)),
      notify_(std::move(notify)),
      clock_(clock),
      nonce_(randomNonce()) {
  if (rank == 0) {
    makeCall();
  }
}

Record Negotiation::round(Step step, const Capabilities& able) {
  const char* const name = nameOf(step);
  // Gloo may take all of the group's timeout to connect the ranks, before they send anything.
  limit_ = step == Step::kConnect ? 2 * timeout_ : timeout_;
  Record own{able, sources_, {nonce_}, isSet("SWITCHML_REQUIRE"), host_};
  own.detail = printable(able.detail);  // the others compare it with what they have read
  auto all = rank_ == 0 ? gather(name, own) : answer(name, own);
  begun_ = clock_.now();
  if (all.kind == Ability::kMissing) {
    throw std::runtime_error(all.detail);
  }
  return all;
}

void Negotiation::makeCall() {
  std::string earlier;
  if (has(kCallKey)) {
    const auto value = get(kCallKey, timeout_);
    earlier.assign(value.begin(), value.end());
  }
  again_ = !earlier.empty();
  call_ = callName(nonce_);
  setName(kCallKey);
  if (again_) {
    const auto decision = keyOf(earlier, kFirstStep);
    setName(keyOf(earlier, kNextCall));
    if (!has(decision)) {
      set(decision, Record{Capabilities::unable(kBegunAgain), sources_, {kNoNonce}}.write());
    }
    read_ = recordKeys(earlier, kFirstStep);
    read_.insert(read_.end(), {decision, keyOf(earlier, kNextCall)});
  }
}

Record Negotiation::gather(const char* step, const Record& own) {
  auto noticed = clock_.now() + kFirstNotice;
  std::vector<Record> all{own};
  std::vector<int> missing;
  std::string reason;
  for (int r = 1; r < size_; ++r) {
    const auto key = keyOf(call_, step, r);
    Record answer;
    answer.nonces = {kNoNonce};
    // Once the time is over, ranks are not waited for one by one.
    if (missing.empty()) {
      awaitRecord(step, r, noticed);
    }
    if (missing.empty() || has(key)) {
      try {
        answer = Record::read(get(key, limit_), 1);
      } catch (const std::exception& error) {
        reason = error.what();
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
    out.detail = missingText(missing, size_, reason);
  }
  set(keyOf(call_, step), out.write());
  if (missing.empty()) {
    remove(read_);  // all ranks have read them before they wrote their records
    remove(recordKeys(call_, step));
    read_ = {keyOf(call_, step)};
  }
  return out;
}

/// Waits for the record of a rank as long as the others may wait for the decision. Names the ranks
/// that are missing after ten seconds, then each minute. Returns at once if the Store cannot check
/// for keys: then get() waits.
void Negotiation::awaitRecord(const char* step, int rank, AgreementClock::Time& noticed) {
  for (Milliseconds pause(1); clock_.now() < begun_ + limit_;
       pause = std::min(2 * pause, kLongestPoll)) {
    if (has(keyOf(call_, step, rank)) || !checks_) {
      return;
    }
    if (clock_.now() >= noticed) {
      noticed = clock_.now() + kNextNotice;
      std::vector<int> missing;
      for (int r = rank; r < size_; ++r) {
        if (!has(keyOf(call_, step, r))) {
          missing.push_back(r);
        }
      }
      notify_(text(ranksText(missing), " of ", size_, missing.size() == 1 ? " has" : " have",
                   " not answered while a process group is made; are they alive, and is the same "
                   "patch, graft or plugin in their torch?"));
    }
    clock_.sleep(pause);
  }
}

std::vector<std::string> Negotiation::recordKeys(const std::string& call, const char* step) const {
  std::vector<std::string> keys;
  for (int r = 1; r < size_; ++r) {
    keys.push_back(keyOf(call, step, r));
  }
  return keys;
}

Record Negotiation::answer(const char* step, const Record& own) {
  if (call_.empty()) {
    readCallFrom(kCallKey);
  }
  for (;;) {
    set(keyOf(call_, step, rank_), own.write());
    auto all = readFromRank0(size_, [&] {
      return Record::read(get(keyOf(call_, step), limit_ + kDecisionGrace), size_);
    });
    if (all.isFor(rank_, nonce_, call_)) {
      return all;
    }
    readCallFrom(keyOf(call_, kNextCall));
  }
}

void Negotiation::readCallFrom(const std::string& key) {
  call_ = readFromRank0(size_, [&] { return readCall(get(key, timeout_ + kDecisionGrace)); });
  begun_ = clock_.now();
}

/// False also if the Store cannot check, as one that is written in Python may not.
bool Negotiation::has(const std::string& key) {
  try {
    return exchange_.has(key.c_str());
  } catch (const std::exception&) {
    checks_ = false;
    return false;
  }
}

/// Removes keys that no rank reads any more, if the Store is able to.
void Negotiation::remove(const std::vector<std::string>& keys) {
  try {
    for (const auto& key : keys) {
      exchange_.remove(key.c_str());
    }
  } catch (const std::exception&) {
  }
}

Negotiation::Value Negotiation::get(const std::string& key, Milliseconds limit) {
  const auto left = std::chrono::ceil<Milliseconds>(begun_ + limit - clock_.now());
  return exchange_.get(key.c_str(), std::max(left, kLeastWait));
}

}  // namespace switchml_delegate
