/// Agreement of the ranks of a new process group on whether the group delegates. Knows nothing of
/// SwitchML.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "SwitchMLInterface.hpp"
#include "record.hpp"
#include "record_store.hpp"

namespace switchml_delegate {

/// Steps in which a group is made. kController and kSums are not rounds: they tell, in this rank's
/// report, how far it came in kCapabilities and in kProbe.
enum class Step { kCapabilities, kController, kStop, kStart, kProbe, kSums, kConnect, kAgreed };

/// Names of the steps in keys of the Store and in reports.
constexpr std::array<const char*, 8> kStepNames{kFirstStep, "controller", "stop",    "start",
                                                "probe",    "sums",       "connect", ""};

constexpr const char* nameOf(Step step) noexcept {
  return kStepNames[static_cast<std::size_t>(step)];
}

/// Reads terms, which are written as NAME=VALUE with spaces between them.
std::vector<std::pair<std::string, std::string>> readTerms(const std::string& terms);

/// Rank 0's decision for all ranks: able if every rank is, and on the same terms.
Record decide(const std::vector<Record>& all);

/// The rounds in which the ranks of one group agree. All ranks take the same steps of a group in
/// the same order, with a round for each, and begin no step before all know how the one before has
/// ended. So all of them delegate, or none.
///
///   1. Rank 0 makes a call: it writes a new random name to the key `switchml/call`. All other keys
///      of the group are below that name.
///   2. Each other rank reads the name of the call.
///   3. Each other rank writes its record of the step, with a nonce of its own.
///   4. Rank 0 reads the records of all ranks and decides (decide()). If one does not come in time,
///      the decision is kMissing.
///   5. Rank 0 writes the decision, with the nonce of each rank that has answered.
///   6. Each other rank reads the decision, for which it waits kDecisionGrace longer than rank 0
///      waits for the records. All ranks follow the decision; if it is kMissing they throw.
///
/// The next round begins at 3. A Store may have the keys of an earlier attempt, as torchrun keeps
/// one over its restarts. Therefore
///
///   - rank 0 writes in 1 the name of the new call below the earlier one as well, and a decision if
///     the earlier call has none, so that no rank waits there for ever;
///   - a rank that does not find its own nonce in 6 has read an earlier call. It reads the name of
///     the next one, and continues with 3. If rank 0 of this attempt has stopped waiting before the
///     rank came, there is no next one, and the rank throws.
///
///     no call ──▶ called ──▶ recorded ──▶ decided ──▶ recorded ──▶ ...
///                   ▲            │            └──▶ missing: throws
///                   └────────────┘ an earlier call
///
/// The thread that makes the group calls all functions.
class Negotiation {
 public:
  using Milliseconds = std::chrono::milliseconds;

  /// `host`: name of this host. `notify` is called with lines for the user while rank 0 waits.
  Negotiation(const Exchange& exchange, int rank, int size, Milliseconds timeout,
              const std::string& host, std::function<void(const std::string&)> notify,
              const AgreementClock& clock = systemClock());

  /// Exchanges the records of a step, and returns the decision. Throws std::runtime_error on every
  /// rank if one is missing.
  Record round(Step step, const Capabilities& able);

  /// A number that all ranks have after the first round, and no other group.
  std::uint64_t seed() const { return std::stoull(call_, nullptr, 16); }

  /// Name of the group, which all ranks have after the first round.
  const std::string& name() const { return call_; }

  /// True if rank 0 has found the call of an earlier attempt in the Store.
  bool again() const { return again_; }

 private:
  // Rank 0.
  void makeCall();
  Record gather(const char* step, const Record& own);

  // The other ranks.
  Record answer(const char* step, const Record& own);
  void readCallFrom(const std::string& key);

  static const AgreementClock& systemClock();

  RecordStore store_;
  const int rank_;
  const int size_;
  const Milliseconds timeout_;
  Milliseconds limit_ = timeout_;  // limit of a round: timeout_, but twice that for kConnect
  const std::string host_;
  const std::string sources_;
  const std::function<void(const std::string&)> notify_;
  const AgreementClock& clock_;
  const std::string nonce_;
  std::string call_;
  bool again_ = false;
  std::vector<std::string> read_;  // keys that rank 0 removes when all have answered the next round
  /// Begin of the round: when the previous one ended on this rank, or when this rank read the call.
  /// What a rank does between two rounds takes less time than the limit of a round.
  AgreementClock::Time begun_ = clock_.now();
};

}  // namespace switchml_delegate
