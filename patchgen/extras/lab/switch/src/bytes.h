// Views of bytes, and the integers in them.
#ifndef SOFTSWITCH_BYTES_H_
#define SOFTSWITCH_BYTES_H_

#include <cstddef>
#include <cstdint>

namespace softswitch {

// Bytes that another object owns.
struct Bytes {
  const std::uint8_t* data = nullptr;
  std::size_t size = 0;
};

// Reads and writes integers of `Octets` octets in network order.
template <std::size_t Octets>
inline std::uint64_t LoadBig(const std::uint8_t* from) {
  std::uint64_t value = 0;
  for (std::size_t at = 0; at < Octets; ++at) value = value << 8 | from[at];
  return value;
}

template <std::size_t Octets>
inline void StoreBig(std::uint8_t* to, std::uint64_t value) {
  for (std::size_t at = Octets; at-- > 0; value >>= 8) to[at] = static_cast<std::uint8_t>(value);
}

}  // namespace softswitch

#endif  // SOFTSWITCH_BYTES_H_
