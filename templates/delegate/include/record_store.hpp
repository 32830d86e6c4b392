/// Access to the records of a new process group in its Store, and the waits for them.
///
/// The delegate library and the loader in torch share this header. C++14.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "SwitchMLInterface.hpp"
#include "record.hpp"

namespace switchml_delegate {

/// Time of a rank: that of the steady clock. Tests have clocks of their own.
class AgreementClock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Milliseconds = std::chrono::milliseconds;

  virtual ~AgreementClock() = default;
  virtual Time now() const { return std::chrono::steady_clock::now(); }
  virtual void sleep(Milliseconds time) const { std::this_thread::sleep_for(time); }

  /// Time from now to `deadline`, rounded up.
  Milliseconds left(Time deadline) const {
    const auto left = deadline - now() + Milliseconds(1) - std::chrono::nanoseconds(1);
    return std::chrono::duration_cast<Milliseconds>(left);
  }
};

/// The Store of a group, as the agreement uses it. The thread that makes the group calls all
/// functions.
class RecordStore {
 public:
  using Value = std::vector<std::uint8_t>;
  using Milliseconds = std::chrono::milliseconds;

  explicit RecordStore(const Exchange& exchange) : exchange_(exchange) {}

  void set(const std::string& key, const Value& value) { exchange_.set(key.c_str(), value); }
  void set(const std::string& key, const std::string& name) {
    set(key, Value(name.begin(), name.end()));
  }

  /// Waits for a key. Throws if it does not appear within `limit`.
  Value get(const std::string& key, Milliseconds limit) {
    return exchange_.get(key.c_str(), std::max(limit, Milliseconds(100)));  // 0 is no limit
  }

  /// False also if the Store cannot check, as one that is written in Python may not.
  bool has(const std::string& key) {
    try {
      return exchange_.has(key.c_str());
    } catch (const std::exception&) {
      checks_ = false;
      return false;
    }
  }

  /// False once the Store could not check for a key.
  bool checks() const { return checks_; }

  /// Removes keys that no rank reads any more, if the Store is able to.
  void remove(const std::vector<std::string>& keys) {
    try {
      for (const auto& key : keys) {
        exchange_.remove(key.c_str());
      }
    } catch (const std::exception&) {
    }
  }

  /// Makes the call of rank 0, whose name is `call`. Ranks that wait at an earlier call get the new
  /// name, and a decision. Returns the name of the earlier call; empty if there is none.
  std::string makeCall(const std::string& call, const std::string& sources, Milliseconds limit) {
    std::string earlier;
    if (has(kCallKey)) {
      const auto value = get(kCallKey, limit);
      earlier.assign(value.begin(), value.end());
    }
    set(kCallKey, call);
    if (!earlier.empty()) {
      set(keyOf(earlier, kNextCall), call);
      if (!has(keyOf(earlier, kFirstStep))) {
        Record again;
        again.sources = sources;
        again.nonces = {kNoNonce};
        again.kind = Ability::kUnable;
        again.detail = "begun again";
        set(keyOf(earlier, kFirstStep), again.write());
      }
    }
    return earlier;
  }

  /// Reads the name of a call. Throws if it does not appear within `limit`, or is too large.
  std::string readCall(const std::string& key, Milliseconds limit) {
    const auto value = get(key, limit);
    limited(value, 3 * kMaxName);
    return {value.begin(), value.end()};
  }

 private:
  const Exchange& exchange_;
  bool checks_ = true;
};

/// Records of all ranks in a step, as rank 0 has read them. A value of one thread.
struct GatheredRecords {
  std::vector<Record> all;   // by rank; empty ones of those that are missing
  std::vector<int> missing;  // ranks that have not answered in time
  std::string reason;        // for which the last of them is missing

  /// Returns `decision`, or the one that ranks are missing.
  Record orMissing(Record decision) const {
    if (!missing.empty()) {
      decision.kind = Ability::kMissing;
      decision.detail = missingText(missing, static_cast<int>(all.size()), reason);
    }
    return decision;
  }
};

/// Rank 0's wait for the records of the other ranks in a step. The thread that makes the group
/// calls it.
class RecordGathering {
 public:
  using Notify = std::function<void(const std::string& line)>;

  /// `notify` is called with the names of missing ranks after ten seconds, then each minute.
  RecordGathering(RecordStore& store, const AgreementClock& clock, const Notify& notify)
      : store_(store), clock_(clock), notify_(notify) {}

  /// Waits for the records below `call` until the deadline. `own` is that of rank 0.
  GatheredRecords run(const std::string& call, const std::string& step, const Record& own, int size,
                      AgreementClock::Time deadline) {
    GatheredRecords out;
    out.all.push_back(own);
    for (int rank = 1; rank < size; ++rank) {
      const auto key = keyOf(call, step, rank);
      Record answer;
      answer.nonces = {kNoNonce};
      // Once the time is over, ranks are not waited for one by one.
      if (out.missing.empty()) {
        await(call, step, rank, size, deadline);
      }
      if (out.missing.empty() || store_.has(key)) {
        try {
          answer = Record::read(store_.get(key, clock_.left(deadline)), 1);
        } catch (const std::exception& error) {
          out.reason = error.what();
          out.missing.push_back(rank);
        }
      } else {
        out.missing.push_back(rank);
      }
      out.all.push_back(answer);
    }
    return out;
  }

 private:
  /// Waits for one record. Returns at once if the Store cannot check for keys: then get() waits.
  void await(const std::string& call, const std::string& step, int rank, int size,
             AgreementClock::Time deadline) {
    using Milliseconds = AgreementClock::Milliseconds;
    for (Milliseconds pause(1); clock_.now() < deadline;
         pause = std::min(2 * pause, Milliseconds(50))) {
      if (store_.has(keyOf(call, step, rank)) || !store_.checks()) {
        return;
      }
      if (clock_.now() >= notice_) {
        notice_ = clock_.now() + std::chrono::minutes(1);
        std::vector<int> missing;
        for (int other = rank; other < size; ++other) {
          if (!store_.has(keyOf(call, step, other))) {
            missing.push_back(other);
          }
        }
        notify_(ranksText(missing) + " of " + std::to_string(size) +
                (missing.size() == 1 ? " has" : " have") +
                " not answered while a process group is made; are they alive, and is the same "
                "patch, graft or plugin in their torch?");
      }
      clock_.sleep(pause);
    }
  }

  RecordStore& store_;
  const AgreementClock& clock_;
  const Notify& notify_;
  AgreementClock::Time notice_ = clock_.now() + std::chrono::seconds(10);
};

/// Keys of the records that the other ranks write in a step.
inline std::vector<std::string> recordKeys(const std::string& call, const std::string& step,
                                           int size) {
  std::vector<std::string> keys;
  for (int rank = 1; rank < size; ++rank) {
    keys.push_back(keyOf(call, step, rank));
  }
  return keys;
}

}  // namespace switchml_delegate
