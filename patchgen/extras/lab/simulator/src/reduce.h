// The switch's arithmetic: how the aggregator combines one message of each worker.
#ifndef SWITCHML_SRC_REDUCE_H_
#define SWITCHML_SRC_REDUCE_H_

#include <cstdint>
#include <vector>

namespace switchml {

using Words = std::vector<uint32_t>;

// Each combines `words` with `result` into `result`, element by element; both have the same size.
void AddInt32(const Words& words, Words& result);  // wraps around
void AddFloat32(const Words& words, Words& result);
void MaxInt32(const Words& words, Words& result);

}  // namespace switchml

#endif  // SWITCHML_SRC_REDUCE_H_
