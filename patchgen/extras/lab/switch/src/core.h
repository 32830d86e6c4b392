// The core of the switch: from a frame to answers, without clock, sockets or threads.
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
constexpr std::size_t kSlots = 8192;  // in each set
constexpr std::size_t kSets = 2;

// The workers that sum together. Ranks that have not joined yet have no address.
struct Session {
  std::uint64_t id = 0;
  std::size_t elements = 0;  // of each packet
  std::vector<std::optional<Address>> workers;
};

enum class Verdict : std::uint8_t {
  kMalformed,  // not a packet of this session
  kSummed,     // added to the slot; packets of other workers are missing
  kComplete,   // added as the last packet: all workers get the sum
  kAgain,      // resent, and the sum is complete: the sender gets the sum again
  kKnown,      // resent, while packets of other workers are missing
};

struct Answer {
  Verdict verdict = Verdict::kMalformed;
  std::size_t set = 0;  // unless kMalformed
  Head head;            // of kComplete and kAgain
  Bytes values;         // likewise; valid until the next frame
};

// The slots of the switch. Each slot is there in two sets, which a worker uses in turn.
//
//   1. The first packet for a slot replaces its values; later ones are added.
//   2. A packet of a worker that was added before changes nothing.
//   3. The packet of the last worker completes the sum. The answer goes to all workers.
//   4. The same worker's packet for the other set shows that it has the answer: its bit is cleared.
//
// Only the thread of the data plane calls it. There is no mutex.
class Core {
 public:
  Core();

  // Begins a session, and clears all slots.
  void Begin(std::shared_ptr<const Session> session);

  // Replaces the description of the running session. Keeps the slots.
  void Update(std::shared_ptr<const Session> session) { session_ = std::move(session); }

  const Session& session() const { return *session_; }

  // Rank of the worker that sent a frame to the switch; none for another sender or destination.
  std::optional<std::size_t> RankOf(Bytes frame) const;

  // Processes a frame of a worker.
  Answer Take(std::size_t rank, Bytes frame);

 private:
  struct Slot {
    std::array<std::uint32_t, kSets> workers{};  // a bit for each whose packet was added
    std::array<std::uint8_t, kSets> missing{};   // workers
    std::array<std::array<std::int8_t, 2>, kSets> exponents{};
  };

  std::shared_ptr<const Session> session_;
  std::vector<Slot> slots_;
  std::vector<std::uint8_t> values_;  // [set][slot][element], in network order
};

}  // namespace softswitch

#endif  // SOFTSWITCH_CORE_H_
