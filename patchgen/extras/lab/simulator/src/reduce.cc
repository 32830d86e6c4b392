#include "reduce.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace switchml {
namespace {

template <typename To, typename From>
To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

}  // namespace

void AddInt32(const Words& words, Words& result) {
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] += words[i];
  }
}

void AddFloat32(const Words& words, Words& result) {
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = BitCast<uint32_t>(BitCast<float>(result[i]) + BitCast<float>(words[i]));
  }
}

void MaxInt32(const Words& words, Words& result) {
  for (size_t i = 0; i < result.size(); ++i) {
    const auto larger = std::max(BitCast<int32_t>(result[i]), BitCast<int32_t>(words[i]));
    result[i] = BitCast<uint32_t>(larger);
  }
}

}  // namespace switchml
