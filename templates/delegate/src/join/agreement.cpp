#include "join/agreement.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "base/text.hpp"

namespace switchml_delegate {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstNotice = std::chrono::seconds(10);  // of ranks that are missing
constexpr milliseconds kNextNotice = std::chrono::minutes(1);
constexpr milliseconds kLongestPoll{50};

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
    : store_(exchange),
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
  call_ = callName(nonce_);
  const auto earlier = store_.makeCall(call_, sources_, left(timeout_));
  again_ = !earlier.empty();
  if (again_) {
    read_ = recordKeys(earlier, kFirstStep, size_);
    read_.insert(read_.end(), {keyOf(earlier, kFirstStep), keyOf(earlier, kNextCall)});
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
    if (missing.empty() || store_.has(key)) {
      try {
        answer = Record::read(store_.get(key, left(limit_)), 1);
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
  out = missing.empty() ? out : decideMissing(out, missing, size_, reason);
  store_.set(keyOf(call_, step), out.write());
  if (missing.empty()) {
    store_.remove(read_);  // all ranks have read them before they wrote their records
    store_.remove(recordKeys(call_, step, size_));
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
    if (store_.has(keyOf(call_, step, rank)) || !store_.checks()) {
      return;
    }
    if (clock_.now() >= noticed) {
      noticed = clock_.now() + kNextNotice;
      std::vector<int> missing;
      for (int r = rank; r < size_; ++r) {
        if (!store_.has(keyOf(call_, step, r))) {
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

Record Negotiation::answer(const char* step, const Record& own) {
  if (call_.empty()) {
    readCallFrom(kCallKey);
  }
  for (;;) {
    store_.set(keyOf(call_, step, rank_), own.write());
    auto all = readFromRank0(size_, [&] {
      return Record::read(store_.get(keyOf(call_, step), left(limit_ + kDecisionGrace)), size_);
    });
    if (all.isFor(rank_, nonce_, call_)) {
      return all;
    }
    readCallFrom(keyOf(call_, kNextCall));
  }
}

void Negotiation::readCallFrom(const std::string& key) {
  call_ =
      readFromRank0(size_, [&] { return store_.readCall(key, left(timeout_ + kDecisionGrace)); });
  begun_ = clock_.now();
}

Negotiation::Milliseconds Negotiation::left(Milliseconds limit) const {
  return std::chrono::ceil<Milliseconds>(begun_ + limit - clock_.now());
}

}  // namespace switchml_delegate
