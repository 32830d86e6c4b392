/// Access to the records of a new process group in its Store.
///
/// The delegate library and the loader in torch share this header. C++14.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "SwitchMLInterface.hpp"
#include "record.hpp"

namespace switchml_delegate {

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
    limited(value, 3 * kMostName);
    return {value.begin(), value.end()};
  }

 private:
  const Exchange& exchange_;
  bool checks_ = true;
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
