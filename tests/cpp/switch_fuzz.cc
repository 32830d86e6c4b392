// Seeded inputs for the memif ports of a switch, beside workers whose sums must stay right.
//
//   switch_fuzz DIRECTORY FIRST COUNT
//
// Most inputs are clients of a port of a switch whose session runs all the while, on its two other
// ports. The rest are workers of a session of their own with a second switch, which loses, doubles,
// delays and reorders frames, and applications to join.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "inputs.hpp"
#include "log.h"
#include "memif.h"
#include "plane.h"
#include "registry.h"

namespace softswitch {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kEnough = std::chrono::minutes(5);
constexpr std::size_t kElements = 64;
constexpr std::size_t kBufferBytes = 2048;
constexpr unsigned kLog2Slots = 5;
constexpr std::size_t kRingSlots = 1 << kLog2Slots;
constexpr std::size_t kRingBytes = sizeof(memif::Ring) + sizeof(memif::Slot) * kRingSlots;

[[noreturn]] void Fail(std::uint64_t number, const std::string& why) {
  std::fprintf(stderr, "FAULT at input %ju: %s\n", uintmax_t{number}, why.c_str());
  std::_Exit(1);
}

Address AddressOf(std::size_t rank) {
  return {0x020000000100 + rank, static_cast<std::uint32_t>(0x0a000001 + rank)};
}

Octets FrameOf(std::size_t rank, std::uint16_t pool, std::uint32_t value) {
  Octets frame(kHeadBytes + 4 * kElements);
  std::uint8_t* const data = frame.data();
  StoreBig<6>(data, kSwitch.mac);
  StoreBig<6>(data + 6, AddressOf(rank).mac);
  StoreBig<2>(data + 12, 0x0800);
  data[14] = 0x45;
  StoreBig<2>(data + 16, frame.size() - 14);
  data[23] = 17;
  StoreBig<4>(data + 26, AddressOf(rank).ip);
  StoreBig<4>(data + 30, kSwitch.ip);
  StoreBig<2>(data + 34, 4000);
  StoreBig<2>(data + 36, 0xbee0);
  StoreBig<2>(data + 38, frame.size() - 34);
  data[42] = 1 << 4 | 1;
  StoreBig<2>(data + 48, pool);
  for (std::size_t at = 0; at < kElements; ++at) {
    StoreBig<4>(data + kHeadBytes + 4 * at, value + at);
  }
  return frame;
}

// A client of memif, with one ring in each direction: its memory has both, then their buffers.
class Client {
 public:
  explicit Client(const std::string& path)
      : file_(memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING)),
        control_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    if (ftruncate(file_.get(), kBytes) != 0) Fail(0, Failure("ftruncate"));
    fcntl(file_.get(), F_ADD_SEALS, F_SEAL_SHRINK);
    memory_ = Mapping(file_, kBytes);
    for (std::size_t ring = 0; ring < 2; ++ring) {
      RingAt(ring)->cookie = memif::kCookie;
      for (std::size_t slot = 0; slot < kRingSlots; ++slot) {
        *SlotAt(ring, slot) = {0, 0, kBufferBytes, BufferOf(ring, slot), 0};
      }
    }
    for (Descriptor& event : events_) event = Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    while (connect(control_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      if (errno != EAGAIN && errno != EINTR) Fail(0, Failure(path));
      std::this_thread::yield();
    }
  }

  static constexpr std::size_t kBytes = 2 * (kRingBytes + kRingSlots * kBufferBytes);

  const Descriptor& file() const { return file_; }
  const Descriptor& event(std::size_t ring) const { return events_[ring]; }
  std::uint8_t* memory() const { return memory_.data(); }
  memif::Ring* RingAt(std::size_t ring) const {
    return reinterpret_cast<memif::Ring*>(memory() + ring * kRingBytes);
  }
  memif::Slot* SlotAt(std::size_t ring, std::size_t slot) const {
    return reinterpret_cast<memif::Slot*>(memory() + ring * kRingBytes + sizeof(memif::Ring)) +
           slot % kRingSlots;
  }
  static std::uint32_t BufferOf(std::size_t ring, std::size_t slot) {
    const std::size_t number = ring * kRingSlots + slot % kRingSlots;
    return static_cast<std::uint32_t>(2 * kRingBytes + number * kBufferBytes);
  }

  // An offer as it should be, with the descriptor that goes with it.
  struct Offer {
    memif::Message message{};
    int descriptor = -1;
  };
  std::vector<Offer> Offers() const {
    std::vector<Offer> offers(5);
    offers[0].message.type = memif::Type::kInit;
    offers[0].message.init.version = memif::kVersion;
    offers[1].message.type = memif::Type::kAddRegion;
    offers[1].message.add_region = {0, kBytes};
    offers[1].descriptor = file_.get();
    for (std::size_t ring = 0; ring < 2; ++ring) {
      offers[2 + ring].message.type = memif::Type::kAddRing;
      offers[2 + ring].message.add_ring = {
          ring == 0 ? memif::kToServer : std::uint16_t{0}, 0,          0,
          static_cast<std::uint32_t>(ring * kRingBytes),   kLog2Slots, 0};
      offers[2 + ring].descriptor = events_[ring].get();
    }
    offers[4].message.type = memif::Type::kConnect;
    return offers;
  }

  // False where the switch has closed the connection.
  bool Tell(const void* data, std::size_t bytes, const std::vector<int>& descriptors) const {
    iovec part = {const_cast<void*>(data), bytes};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(16 * sizeof(int))> room{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (!descriptors.empty()) {
      header.msg_control = room.data();
      header.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
      cmsghdr* const own = CMSG_FIRSTHDR(&header);
      own->cmsg_level = SOL_SOCKET;
      own->cmsg_type = SCM_RIGHTS;
      own->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
      std::memcpy(CMSG_DATA(own), descriptors.data(), descriptors.size() * sizeof(int));
    }
    return sendmsg(control_.get(), &header, MSG_NOSIGNAL) >= 0;
  }

  // The kind of the next message; none at the end of the connection.
  memif::Type Hear() {
    memif::Message message{};
    pollfd entry{control_.get(), POLLIN, 0};
    const auto limit = std::chrono::duration_cast<milliseconds>(kEnough).count();
    if (poll(&entry, 1, static_cast<int>(limit)) <= 0) Fail(0, "no answer to a message");
    if (recv(control_.get(), &message, sizeof message, 0) <= 0) return memif::Type::kNone;
    return message.type;
  }

  // False where the switch has refused it.
  bool Connect() {
    if (Hear() != memif::Type::kHello) return false;
    for (const Offer& offer : Offers()) {
      const std::vector<int> descriptors =
          offer.descriptor < 0 ? std::vector<int>() : std::vector<int>{offer.descriptor};
      Tell(&offer.message, sizeof offer.message, descriptors);
      const memif::Type answer = Hear();
      if (answer != memif::Type::kAck && answer != memif::Type::kConnected) return false;
    }
    return true;
  }

  // Offers all slots for answers.
  void Grant() {
    __atomic_store_n(&RingAt(1)->head, static_cast<std::uint16_t>(kRingSlots), __ATOMIC_RELEASE);
  }

  void Interrupt() const { eventfd_write(events_[0].get(), 1); }

  void Send(const Octets& frame) {
    const std::uint16_t head = RingAt(0)->head;
    std::memcpy(memory() + BufferOf(0, head), frame.data(), std::min(frame.size(), kBufferBytes));
    SlotAt(0, head)->bytes = static_cast<std::uint32_t>(frame.size());
    __atomic_store_n(&RingAt(0)->head, static_cast<std::uint16_t>(head + 1), __ATOMIC_RELEASE);
    Interrupt();
  }

  // The next answer.
  Octets Receive() {
    const auto deadline = steady_clock::now() + kEnough;
    while (__atomic_load_n(&RingAt(1)->tail, __ATOMIC_ACQUIRE) == used_) {
      if (steady_clock::now() > deadline) Fail(0, "an honest worker gets no answer");
      std::this_thread::yield();
    }
    memif::Slot* const slot = SlotAt(1, used_);
    const std::uint8_t* const from = memory() + slot->offset;
    Octets frame(from, from + slot->bytes);
    slot->bytes = kBufferBytes;
    ++used_;
    __atomic_store_n(&RingAt(1)->head, static_cast<std::uint16_t>(used_ + kRingSlots),
                     __ATOMIC_RELEASE);
    return frame;
  }

  // Waits until the switch has taken what was offered, or has closed the connection; not for long,
  // as it may do neither.
  void Settle() {
    const auto deadline = steady_clock::now() + milliseconds(2);
    pollfd entry{control_.get(), POLLIN, 0};
    while (__atomic_load_n(&RingAt(0)->tail, __ATOMIC_ACQUIRE) !=
               __atomic_load_n(&RingAt(0)->head, __ATOMIC_ACQUIRE) &&
           poll(&entry, 1, 0) == 0 && steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
  }

 private:
  Descriptor file_;
  Descriptor control_;
  Mapping memory_;
  std::array<Descriptor, 2> events_;
  std::uint16_t used_ = 0;
};

class Switch {
 public:
  Switch(const std::string& directory, const std::string& name, std::size_t ports,
         std::size_t workers, const FaultPlan& faults) {
    std::vector<std::string> texts;
    for (std::size_t port = 0; port < ports; ++port) {
      paths_.push_back(directory + "/" + name + std::to_string(port));
      texts.push_back("memif:" + paths_.back());
    }
    plane_ = std::make_unique<Plane>(texts, faults);
    thread_ = std::thread([this] { plane_->Run(); });
    Begin(workers);
  }

  ~Switch() {
    plane_->Stop();
    thread_.join();
  }

  void Begin(std::size_t workers) {
    auto session = std::make_shared<Session>();
    session->id = ++sessions_;
    session->elements = kElements;
    for (std::size_t rank = 0; rank < workers; ++rank) {
      session->workers.emplace_back(AddressOf(rank));
    }
    plane_->Apply(std::move(session), true);
  }

  const std::string& path(std::size_t port) const { return paths_[port]; }
  const Plane& plane() const { return *plane_; }

 private:
  std::vector<std::string> paths_;
  std::unique_ptr<Plane> plane_;
  std::thread thread_;
  std::uint64_t sessions_ = 0;
};

// Two workers with the first two ports.
class Honest {
 public:
  explicit Honest(const Switch& with) : clients_{Client(with.path(0)), Client(with.path(1))} {
    for (Client& client : clients_) {
      if (!client.Connect()) Fail(0, "an honest worker is refused");
      client.Grant();
    }
  }

  void Sum(std::uint64_t number) {
    const auto slot = static_cast<std::uint16_t>(number % 100);
    const auto set = static_cast<std::uint16_t>(number / 100 % 2 << 15);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      clients_[rank].Send(FrameOf(rank, slot | set, static_cast<std::uint32_t>(number + rank)));
    }
    for (Client& client : clients_) {
      const Octets answer = client.Receive();
      if (answer.size() != kHeadBytes + 4 * kElements) Fail(number, "an answer of another size");
      for (std::size_t at = 0; at < kElements; ++at) {
        const auto sum = static_cast<std::uint32_t>(2 * (number + at) + 1);
        if (LoadBig<4>(&answer[kHeadBytes + 4 * at]) != sum) Fail(number, "a wrong sum");
      }
    }
  }

 private:
  std::array<Client, 2> clients_;
};

void SpoilOffer(Inputs& inputs, memif::Message& message) {
  using memif::Type;
  switch (inputs.Below(6)) {
    case 0:
      message.type = static_cast<Type>(inputs.Below(10));
      return;
    case 1: {
      const Octets garbage = inputs.Garbage(sizeof message);
      std::copy(garbage.begin(), garbage.end(), reinterpret_cast<std::uint8_t*>(&message));
      return;
    }
    default:
      break;
  }
  // Members of packed structures have no references.
  if (message.type == Type::kInit) {
    message.init.version = inputs.Number<std::uint16_t>();
    message.init.mode = static_cast<std::uint8_t>(inputs.Below(3));
  } else if (message.type == Type::kAddRegion) {
    if (inputs.OneIn(3)) message.add_region.index = inputs.Number<std::uint16_t>();
    message.add_region.bytes =
        inputs.Of<std::uint64_t>({inputs.Number<std::uint64_t>(), 2 * Client::kBytes, 1 << 30});
  } else if (message.type == Type::kAddRing) {
    switch (inputs.Below(5)) {
      case 0:
        message.add_ring.flags = inputs.Number<std::uint16_t>();
        break;
      case 1:
        message.add_ring.index = inputs.Number<std::uint16_t>();
        break;
      case 2:
        message.add_ring.region = inputs.Number<std::uint16_t>();
        break;
      case 3:
        message.add_ring.offset = inputs.Number<std::uint32_t>();
        break;
      default:
        message.add_ring.log2_slots = inputs.Number<std::uint8_t>();
    }
  }
}

// Says what a client says on its socket, or nearly. True where it is connected all the same.
bool Offer(Inputs& inputs, Client& client) {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) Fail(0, Failure("pipe2"));
  const Descriptor read(ends[0]);
  const Descriptor write(ends[1]);
  std::vector<Client::Offer> offers = client.Offers();
  if (inputs.OneIn(4)) std::swap(offers[inputs.Below(5)], offers[inputs.Below(5)]);
  while (inputs.OneIn(4)) offers.push_back(offers[inputs.Below(offers.size())]);
  const std::uint64_t spoiled = inputs.Below(offers.size() + 1);
  bool connected = false;
  for (std::size_t at = 0; at < offers.size(); ++at) {
    Client::Offer& offer = offers[at];
    std::vector<int> descriptors;
    if (offer.descriptor >= 0) descriptors = {offer.descriptor};
    std::size_t bytes = sizeof offer.message;
    if (at == spoiled) {
      switch (inputs.Below(4)) {
        case 0:
          descriptors.assign(
              inputs.Below(12),
              inputs.Of({read.get(), write.get(), client.file().get(), client.event(0).get()}));
          break;
        case 1:
          bytes = inputs.Below(bytes);
          break;
        default:
          SpoilOffer(inputs, offer.message);
      }
    }
    if (!client.Tell(&offer.message, bytes, descriptors)) return false;
    if (offer.message.type == memif::Type::kAck && bytes == sizeof offer.message) continue;
    const memif::Type answer = client.Hear();
    connected |= answer == memif::Type::kConnected;
    if (answer == memif::Type::kNone || answer == memif::Type::kDisconnect) return false;
  }
  return connected;
}

Octets AnyFrame(Inputs& inputs, std::size_t ranks) {
  Octets frame = FrameOf(inputs.Below(ranks), static_cast<std::uint16_t>(inputs.Below(4)),
                         inputs.Number<std::uint32_t>());
  while (inputs.OneIn(3)) {
    if (inputs.OneIn(2)) frame[inputs.Below(kHeadBytes)] = inputs.Number<std::uint8_t>();
    inputs.Change(frame);
    if (frame.size() < kHeadBytes) return frame;
  }
  return frame;
}

// Writes into a client's memory: frames, and what no client should write.
void Scribble(Inputs& inputs, Client& client, std::size_t ranks) {
  const std::uint64_t turns = 1 + inputs.Below(6);
  for (std::uint64_t turn = 0; turn < turns; ++turn) {
    client.Send(AnyFrame(inputs, ranks));
    if (inputs.OneIn(2)) continue;
    const std::size_t ring = inputs.Below(2);
    memif::Slot* const slot = client.SlotAt(ring, inputs.Below(kRingSlots));
    switch (inputs.Below(9)) {
      case 0:
        slot->flags = inputs.Number<std::uint16_t>();
        break;
      case 1:
        slot->region = inputs.Number<std::uint16_t>();
        break;
      case 2:
        slot->bytes = inputs.Number<std::uint32_t>();
        break;
      case 3:
        slot->offset = inputs.Of({inputs.Number<std::uint32_t>(),
                                  static_cast<std::uint32_t>(inputs.Below(2 * Client::kBytes))});
        break;
      case 4:
        client.RingAt(ring)->head = inputs.Number<std::uint16_t>();
        break;
      case 5:
        client.RingAt(ring)->tail = inputs.Number<std::uint16_t>();
        break;
      case 6:
        client.RingAt(ring)->flags = inputs.Number<std::uint16_t>();
        break;
      case 7:  // buffers that are too short
        for (std::size_t each = 0; each < kRingSlots; ++each) {
          client.SlotAt(ring, each)->bytes = static_cast<std::uint32_t>(inputs.Below(20));
        }
        break;
      default: {
        const Octets garbage = inputs.Garbage(kRingBytes);
        std::copy(garbage.begin(), garbage.end(),
                  reinterpret_cast<std::uint8_t*>(client.RingAt(ring)));
      }
    }
    client.Interrupt();
  }
  client.Settle();
}

void Apply(Inputs& inputs) {
  Registry registry;
  for (int times = 0; times < 40; ++times) {
    const Application application = {inputs.Below(3),
                                     inputs.OneIn(4) ? inputs.Number<std::uint32_t>()
                                                     : static_cast<std::uint32_t>(inputs.Below(4)),
                                     inputs.OneIn(4) ? inputs.Number<std::uint32_t>()
                                                     : static_cast<std::uint32_t>(inputs.Below(4)),
                                     inputs.Of<std::size_t>({0, 64, 256}),
                                     AddressOf(inputs.Below(4))};
    const auto decision = registry.Decide(application, [&] { return inputs.OneIn(2); });
    if (decision.change == Registry::Change::kNone) continue;
    if (decision.session->workers.size() > kMaxWorkers) Fail(0, "a session of too many workers");
    registry.Adopt(decision.session);
  }
}

std::size_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

void Run(const std::string& directory, std::uint64_t first, std::uint64_t count) {
  FaultPlan faults;
  faults.loss = faults.duplicate = faults.reorder = 0.1;
  faults.delay = std::chrono::microseconds(50);
  faults.seed = first;
  Switch beside(directory, "beside", 3, 2, {});
  Switch own(directory, "own", 1, 1, faults);
  std::uint64_t connected = 0;
  std::uint64_t sums = 0;
  {
    Honest honest(beside);
    for (std::uint64_t number = first; number < first + count; ++number) {
      Inputs inputs(number);
      if (number % 50 == 0) own.Begin(1 + inputs.Below(2));
      if (number % 10 == 9) {
        Apply(inputs);
      } else {
        const bool other = inputs.OneIn(2);
        Client client(other ? own.path(0) : beside.path(2));
        const bool offers = inputs.OneIn(2);
        if (offers ? client.Hear() == memif::Type::kHello && Offer(inputs, client)
                   : client.Connect()) {
          ++connected;
          client.Grant();
          Scribble(inputs, client, other ? 2 : 4);
        }
      }
      if (number % 4 == 0) honest.Sum(sums++);
    }
    honest.Sum(sums++);
    if (beside.plane().Broken()) Fail(first + count, "the session did not last");
  }
  std::printf("inputs %ju, sums beside them %ju, connected %ju\n", uintmax_t{count},
              uintmax_t{sums}, uintmax_t{connected});
}

}  // namespace
}  // namespace softswitch

int main(int count, char** words) {
  if (count != 4) return 2;
  const std::uint64_t first = std::stoull(words[2]);
  const std::size_t before = softswitch::OpenDescriptors();
  softswitch::Run(words[1], first, std::stoull(words[3]));
  if (softswitch::OpenDescriptors() != before) softswitch::Fail(first, "descriptors left open");
}
