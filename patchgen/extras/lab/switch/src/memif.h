// The format of the memif protocol, version 2.0: messages on a Unix socket, and rings in shared
// memory.
//
//   1. The server sends hello, and the client init.
//   2. The client offers regions of memory and rings in them, each with a descriptor.
//   3. The client sends connect, and the server connected.
//   4. The server takes frames from the rings to the server, and puts frames into those to the
//      client.
//
// All integers have the byte order of the machine.
#ifndef SOFTSWITCH_MEMIF_H_
#define SOFTSWITCH_MEMIF_H_

#include <cstddef>
#include <cstdint>

namespace softswitch::memif {

constexpr std::uint16_t kVersion = 2 << 8;
constexpr std::uint32_t kCookie = 0x3e31f20;

enum class Type : std::uint16_t {
  kNone,
  kAck,
  kHello,
  kInit,
  kAddRegion,
  kAddRing,
  kConnect,
  kConnected,
  kDisconnect,
};

constexpr std::size_t kMessageBytes = 128;
constexpr std::size_t kNameBytes = 32;
constexpr std::size_t kReasonBytes = 96;
constexpr std::size_t kSecretBytes = 24;

#pragma pack(push, 1)

struct Hello {
  char name[kNameBytes];
  std::uint16_t lowest_version;
  std::uint16_t highest_version;
  std::uint16_t last_region;
  std::uint16_t last_to_client;
  std::uint16_t last_to_server;
  std::uint8_t log2_slots;
};

struct Init {
  std::uint16_t version;
  std::uint32_t id;
  std::uint8_t mode;  // 0 is Ethernet
  char secret[kSecretBytes];
  char name[kNameBytes];
};

struct AddRegion {
  std::uint16_t index;
  std::uint64_t bytes;
};

struct AddRing {
  std::uint16_t flags;
  std::uint16_t index;
  std::uint16_t region;
  std::uint32_t offset;
  std::uint8_t log2_slots;
  std::uint16_t private_bytes;
};
constexpr std::uint16_t kToServer = 1;  // of AddRing's flags

struct Connect {
  char interface[kNameBytes];
};

struct Disconnect {
  std::uint32_t code;
  char reason[kReasonBytes];
};

struct Message {
  Type type;
  union {
    Hello hello;
    Init init;
    AddRegion add_region;
    AddRing add_ring;
    Connect connect;
    Disconnect disconnect;
    char room[kMessageBytes - 2];
  };
};

// A part of a frame, or memory for one.
struct Slot {
  std::uint16_t flags;
  std::uint16_t region;
  std::uint32_t bytes;
  std::uint32_t offset;
  std::uint32_t metadata;
};
constexpr std::uint16_t kNext = 1;  // of a slot's flags: the frame continues in the next slot

#pragma pack(pop)

static_assert(sizeof(Message) == kMessageBytes);
static_assert(sizeof(Slot) == 16);

// Head of a ring. Its parts are on cache lines of 64 bytes. The client offers slots by moving the
// head: frames in a ring to the server, memory for frames in a ring to the client. The server moves
// the tail when it has used them.
constexpr std::size_t kLine = 64;
struct Ring {
  std::uint32_t cookie;
  std::uint16_t flags;
  std::uint16_t head;
  std::uint8_t fill[kLine - 8];
  std::uint16_t tail;
  std::uint8_t fill_too[kLine - 2];
};
constexpr std::uint16_t kQuiet = 1;  // of a ring's flags: its reader wants no interrupt

static_assert(sizeof(Ring) == 2 * kLine);

}  // namespace softswitch::memif

#endif  // SOFTSWITCH_MEMIF_H_
