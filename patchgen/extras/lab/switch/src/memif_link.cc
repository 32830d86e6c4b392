#include "memif_link.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace softswitch {
namespace {

constexpr std::uint16_t kBatch = 64;
constexpr std::size_t kMaxRegionBytes = std::size_t{1} << 30;
constexpr std::size_t kMaxParts = 16;   // of a frame that is sent
constexpr std::size_t kBacklog = 4096;  // frames that wait for room in a ring

// Another process writes the same memory.
template <class Value>
Value Acquire(const Value* from) {
  return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

template <class Value>
void Release(Value* to, Value value) {
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
}

bool CannotShrink(const Descriptor& file) {
  const int seals = fcntl(file.get(), F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

// Writing to another kind of file might block, or have an effect.
bool IsEvent(const Descriptor& file) {
  std::array<char, 64> target{};
  const std::string link = "/proc/self/fd/" + std::to_string(file.get());
  const ssize_t bytes = readlink(link.c_str(), target.data(), target.size() - 1);
  return bytes > 0 && std::string(target.data()).find("[eventfd]") != std::string::npos;
}

}  // namespace

void MemifLink::AddRegion(const memif::AddRegion& offer, Descriptor file) {
  if (!file) throw MemifFault("the region has no file");
  if (offer.index != regions_.size() || offer.index >= kMaxRegions) {
    throw MemifFault("wrong index of a region");
  }
  const std::size_t bytes = offer.bytes;  // a copy, because the message is not aligned
  if (bytes == 0 || bytes > kMaxRegionBytes) throw MemifFault("wrong region size");
  struct stat status {};
  // If the client could shorten the file, the next access would end this process.
  if (!CannotShrink(file)) throw MemifFault("the region's file may shrink (zero-copy?)");
  if (fstat(file.get(), &status) != 0 || static_cast<std::size_t>(status.st_size) < bytes) {
    throw MemifFault("the region's file is too short");
  }
  try {
    regions_.emplace_back(file, bytes);
  } catch (const std::runtime_error& error) {
    throw MemifFault(error.what());
  }
}

void MemifLink::AddRing(const memif::AddRing& offer, Descriptor interrupt) {
  std::vector<Ring>& rings = (offer.flags & memif::kToServer) != 0 ? to_server_ : to_client_;
  if (!interrupt || !IsEvent(interrupt)) throw MemifFault("the ring has no eventfd");
  if (offer.index != rings.size() || offer.index >= kMaxRings) {
    throw MemifFault("wrong index of a ring");
  }
  if (offer.log2_slots > kMaxLog2Slots) throw MemifFault("the ring is too long");
  const int flags = fcntl(interrupt.get(), F_GETFL);
  if (flags < 0 || fcntl(interrupt.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    throw MemifFault("the ring's eventfd cannot be used");
  }
  Ring ring;
  ring.interrupt = std::move(interrupt);
  ring.offer = offer;
  rings.push_back(std::move(ring));
}

void MemifLink::Finish() {
  if (to_server_.empty() || to_client_.empty()) throw MemifFault("rings are missing");
  for (std::vector<Ring>* rings : {&to_server_, &to_client_}) {
    for (Ring& ring : *rings) {
      const memif::AddRing& offer = ring.offer;
      ring.count = static_cast<std::uint16_t>(1U << offer.log2_slots);
      const std::size_t bytes = sizeof(memif::Ring) + sizeof(memif::Slot) * ring.count;
      if (offer.region >= regions_.size()) throw MemifFault("the ring's region is missing");
      const Mapping& memory = regions_[offer.region];
      if (offer.offset % memif::kLine != 0 || offer.offset > memory.size() ||
          memory.size() - offer.offset < bytes) {
        throw MemifFault("the ring is outside of its region");
      }
      std::uint8_t* start = memory.data() + offer.offset;
      ring.ring = reinterpret_cast<memif::Ring*>(start);
      ring.slots = start + sizeof(memif::Ring);
      if (Acquire(&ring.ring->cookie) != memif::kCookie) throw MemifFault("no ring is there");
    }
  }
}

memif::Slot MemifLink::SlotAt(const Ring& ring, std::uint16_t at) {
  memif::Slot slot;
  std::memcpy(&slot, ring.slots + sizeof slot * (at & (ring.count - 1)), sizeof slot);
  return slot;
}

// Number of slots that the client has offered and the server has not used.
std::uint16_t MemifLink::Offered(const Ring& ring) {
  const auto offered = static_cast<std::uint16_t>(Acquire(&ring.ring->head) - ring.at);
  if (offered > ring.count) throw MemifFault("the ring's head is out of range");
  return offered;
}

Bytes MemifLink::Room(const memif::Slot& slot) const {
  if (slot.region >= regions_.size()) throw MemifFault("the slot's region is missing");
  const Mapping& memory = regions_[slot.region];
  if (slot.offset > memory.size() || memory.size() - slot.offset < slot.bytes) {
    throw MemifFault("the slot is outside of its region");
  }
  return {memory.data() + slot.offset, slot.bytes};
}

bool MemifLink::Receive(const Port::Taker& take, PortCounters& counters) {
  bool any = false;
  for (std::size_t queue = 0; queue < to_server_.size(); ++queue) {
    any |= ReceiveFrom(to_server_[queue], static_cast<std::uint16_t>(queue), take, counters);
  }
  return any;
}

bool MemifLink::ReceiveFrom(Ring& ring, std::uint16_t queue, const Port::Taker& take,
                            PortCounters& counters) {
  const std::uint16_t offered = std::min(Offered(ring), kBatch);
  for (std::uint16_t used = 0; used < offered; ++used) {
    const memif::Slot slot = SlotAt(ring, ring.at++);
    const Bytes part = Room(slot);
    const bool last = (slot.flags & memif::kNext) == 0;
    std::vector<std::uint8_t>& parts = ring.parts;
    if (parts.empty() && last) {
      ++counters.received;
      take(queue, part);
      continue;
    }
    // A client with short buffers sends a frame in several parts.
    if (parts.size() + part.size <= kMaxFrame) {
      parts.insert(parts.end(), part.data, part.data + part.size);
    } else {
      parts.resize(kMaxFrame + 1);  // longer than any packet, so that the core rejects it
    }
    if (!last) continue;
    ++counters.received;
    take(queue, {parts.data(), parts.size()});
    parts.clear();
  }
  if (offered > 0) Release(&ring.ring->tail, ring.at);
  return offered > 0;
}

void MemifLink::Send(std::uint16_t queue, Bytes head, Bytes values, PortCounters& counters) {
  if (queue >= to_client_.size()) {
    ++counters.no_room;
    return;
  }
  Ring& ring = to_client_[queue];
  if (ring.backlog.empty() && Put(ring, head, values)) {
    ++counters.sent;
    return;
  }
  // A client that has not polled yet has offered no room.
  if (ring.backlog.size() == kBacklog) {
    ++counters.no_room;
    return;
  }
  std::vector<std::uint8_t> frame(head.data, head.data + head.size);
  frame.insert(frame.end(), values.data, values.data + values.size);
  ring.backlog.push_back(std::move(frame));
}

bool MemifLink::Put(Ring& ring, Bytes head, Bytes values) {
  // The slots are read once, because the client may change them, and before any byte is written,
  // because half a frame is useless.
  std::array<memif::Slot, kMaxParts> slots{};
  const std::uint16_t offered = Offered(ring);
  const std::size_t bytes = head.size + values.size;
  std::size_t room = 0;
  std::size_t count = 0;
  while (room < bytes) {
    if (count == offered) return false;
    if (count == kMaxParts) throw MemifFault("the buffers are too short");
    slots[count] = SlotAt(ring, static_cast<std::uint16_t>(ring.at + count));
    room += Room(slots[count++]).size;
  }
  std::size_t done = 0;
  for (std::size_t number = 0; number < count; ++number) {
    memif::Slot& slot = slots[number];
    std::uint8_t* to = regions_[slot.region].data() + slot.offset;
    slot.bytes = static_cast<std::uint32_t>(std::min<std::size_t>(slot.bytes, bytes - done));
    const std::size_t of_head =
        std::min<std::size_t>(slot.bytes, head.size - std::min(head.size, done));
    if (of_head != 0) std::memcpy(to, head.data + done, of_head);
    const std::size_t of_values = slot.bytes - of_head;
    if (of_values != 0)
      std::memcpy(to + of_head, values.data + done + of_head - head.size, of_values);
    done += slot.bytes;
    slot.flags = number + 1 < count ? memif::kNext : 0;
    std::memcpy(ring.slots + sizeof slot * (ring.at++ & (ring.count - 1)), &slot, sizeof slot);
  }
  return true;
}

void MemifLink::Flush(PortCounters& counters) {
  for (Ring& ring : to_client_) {
    while (!ring.backlog.empty()) {
      const std::vector<std::uint8_t>& frame = ring.backlog.front();
      if (!Put(ring, {frame.data(), frame.size()}, {})) break;
      ring.backlog.pop_front();
      ++counters.sent;
    }
    if (ring.published == ring.at) continue;
    ring.published = ring.at;
    Release(&ring.ring->tail, ring.at);
    if ((Acquire(&ring.ring->flags) & memif::kQuiet) != 0) continue;
    const std::uint64_t one = 1;
    // The eventfd may be full: the client need not read it.
    [[maybe_unused]] const ssize_t written = write(ring.interrupt.get(), &one, sizeof one);
  }
}

void MemifLink::Wake(bool wanted) {
  for (Ring& ring : to_server_) {
    __atomic_store_n(&ring.ring->flags, wanted ? std::uint16_t{0} : memif::kQuiet,
                     __ATOMIC_SEQ_CST);
  }
}

bool MemifLink::Pending() const {
  return std::any_of(to_client_.begin(), to_client_.end(),
                     [](const Ring& ring) { return !ring.backlog.empty(); });
}

}  // namespace softswitch
