// Core of the switch: from a frame to answers, without clock, sockets or threads.
#ifndef SOFTSWITCH_CORE_H_
#define SOFTSWITCH_CORE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "bytes.h"
#include "frame.h"

namespace softswitch {

constexpr std::size_t kMaxWorkers = 32;
constexpr std::size_t kSlots = 8192;  // each is there twice, once in each set
constexpr std::size_t kSets = 2;

// Who sums together. Ranks that have not joined yet have no address.
struct Session {
  std::uint64_t id = 0;
  std::size_t elements = 0;  // of each packet
  std::vector<std::optional<Address>> workers;
};

enum class Verdict : std::uint8_t {
  kMalformed,  // no packet of this session
  kSummed,     // counted in; others are still missing
  kComplete,   // counted in, and the last: the sum goes to all
  kAgain,      // known, and complete: the sum goes to the sender once more
  kKnown,      // known, while others are still missing
};

struct Answer {
  Verdict verdict = Verdict::kMalformed;
  std::size_t set = 0;  // unless kMalformed
  Head head;            // of kComplete and kAgain
  Bytes values;         // likewise; valid until the next frame
};

class Core {
 public:
  Core();

  // Begins a session: all slots are as if never used.
  void Begin(std::shared_ptr<const Session> session);

  // Replaces what is known of the session that runs; slots stay as they are.
  void Update(std::shared_ptr<const Session> session) { session_ = std::move(session); }

  const Session& session() const { return *session_; }

  // Whose frame it is: nobody's who has joined, or not for the switch, where there is no rank.
  std::optional<std::size_t> RankOf(Bytes frame) const;

  // Takes a frame of a worker.
  Answer Take(std::size_t rank, Bytes frame);

 private:
  struct Slot {
    std::array<std::uint32_t, kSets> workers{};  // a bit for each that is counted in
    std::array<std::uint8_t, kSets> missing{};
    std::array<std::array<std::int8_t, 2>, kSets> exponents{};
  };

  std::shared_ptr<const Session> session_;
  std::vector<Slot> slots_;
  std::vector<std::uint8_t> values_;  // [set][slot][element], in network order
};

}  // namespace softswitch

#endif  // SOFTSWITCH_CORE_H_
