#include "core.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "sum.h"

namespace softswitch {
namespace {

constexpr std::size_t kSlotBytes = 4 * kMaxElements;
constexpr std::uint16_t kSetBit = 0x8000;

}  // namespace

Core::Core()
    : session_(std::make_shared<Session>()), slots_(kSlots), values_(kSets * kSlots * kSlotBytes) {}

void Core::Begin(std::shared_ptr<const Session> session) {
  session_ = std::move(session);
  std::fill(slots_.begin(), slots_.end(), Slot{});
}

std::optional<std::size_t> Core::RankOf(Bytes frame) const {
  if (!ForSwitch(frame)) return std::nullopt;
  const Address sender = Sender(frame);
  for (std::size_t rank = 0; rank < session_->workers.size(); ++rank) {
    const std::optional<Address>& worker = session_->workers[rank];
    if (worker && worker->mac == sender.mac && worker->ip == sender.ip) return rank;
  }
  return std::nullopt;
}

Answer Core::Take(std::size_t rank, Bytes frame) {
  Answer answer;
  Packet packet;
  if (!Read(frame, session_->elements, packet)) return answer;
  const std::size_t index = packet.pool & ~kSetBit;
  if (index >= kSlots) return answer;
  const std::size_t set = (packet.pool & kSetBit) != 0 ? 1 : 0;
  answer.set = set;

  Slot& slot = slots_[index];
  std::uint8_t* values = &values_[(set * kSlots + index) * kSlotBytes];
  const std::size_t bytes = 4 * session_->elements;
  const std::uint32_t bit = std::uint32_t{1} << rank;
  const std::uint32_t before = slot.workers[set];
  const bool known = (before & bit) != 0;
  slot.workers[set] |= bit;
  slot.workers[1 - set] &= ~bit;

  if (before == 0) {
    std::memcpy(values, packet.values, bytes);
    slot.exponents[set] = packet.exponents;
  } else if (!known) {
    Add(values, packet.values, session_->elements);
    for (std::size_t each = 0; each < 2; ++each) {
      slot.exponents[set][each] = std::max(slot.exponents[set][each], packet.exponents[each]);
    }
  }

  const std::size_t workers = session_->workers.size();
  const std::uint8_t missing = slot.missing[set];
  if (known) {
    answer.verdict = missing == 0 ? Verdict::kAgain : Verdict::kKnown;
  } else {
    slot.missing[set] = static_cast<std::uint8_t>((missing == 0 ? workers : missing) - 1);
    answer.verdict = workers == 1 || missing == 1 ? Verdict::kComplete : Verdict::kSummed;
  }
  if (answer.verdict == Verdict::kComplete || answer.verdict == Verdict::kAgain) {
    answer.values = {values, bytes};
    answer.head = Head(packet, slot.exponents[set], answer.values);
  }
  return answer;
}

}  // namespace softswitch
