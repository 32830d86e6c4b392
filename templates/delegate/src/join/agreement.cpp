#include "join/agreement.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <stdexcept>

#include "base/forever.hpp"
#include "base/text.hpp"
#include "environment.hpp"

namespace switchml_delegate {
namespace {

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
      host_(hostText(host)),
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
  // Gloo may take the whole timeout of the group to connect the ranks, before they send anything.
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
  const auto earlier = store_.makeCall(call_, sources_, clock_.left(begun_ + timeout_));
  again_ = !earlier.empty();
  if (again_) {
    read_ = recordKeys(earlier, kFirstStep, size_);
    read_.insert(read_.end(), {keyOf(earlier, kFirstStep), keyOf(earlier, kNextCall)});
  }
}

Record Negotiation::gather(const char* step, const Record& own) {
  const auto found =
      RecordGathering(store_, clock_, notify_).run(call_, step, own, size_, begun_ + limit_);
  const auto out = found.orMissing(decide(found.all));
  store_.set(keyOf(call_, step), out.write());
  if (found.missing.empty()) {
    store_.remove(read_);  // all ranks have read them before they wrote their records
    store_.remove(recordKeys(call_, step, size_));
    read_ = {keyOf(call_, step)};
  }
  return out;
}

Record Negotiation::answer(const char* step, const Record& own) {
  if (call_.empty()) {
    readCallFrom(kCallKey);
  }
  for (;;) {
    store_.set(keyOf(call_, step, rank_), own.write());
    auto all = readFromRank0(size_, [&] {
      return Record::read(
          store_.get(keyOf(call_, step), clock_.left(begun_ + limit_ + kDecisionGrace)), size_);
    });
    if (all.isFor(rank_, nonce_, call_)) {
      return all;
    }
    readCallFrom(keyOf(call_, kNextCall));
  }
}

void Negotiation::readCallFrom(const std::string& key) {
  call_ = readFromRank0(
      size_, [&] { return store_.readCall(key, clock_.left(begun_ + timeout_ + kDecisionGrace)); });
  begun_ = clock_.now();
}

const AgreementClock& Negotiation::systemClock() {
  static const auto& clock = *new AgreementClock;
  return clock;
}

}  // namespace switchml_delegate
