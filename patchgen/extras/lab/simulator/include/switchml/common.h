// Types shared by the headers of the client library's API.
#ifndef SWITCHML_COMMON_H_
#define SWITCHML_COMMON_H_

#include <chrono>
#include <cstdint>

// Distinguishes this implementation, which sums over TCP, from the real client library.
#define SWITCHML_SIMULATOR 1

namespace switchml {

typedef uint64_t JobId;
typedef int16_t WorkerTid;
typedef uint64_t Numel;
typedef std::chrono::steady_clock clock;

enum DataType { FLOAT32, INT32 };

// Bytes of one element; 0 for a value that is not a DataType.
inline uint16_t DataTypeSize(DataType type) { return type == FLOAT32 || type == INT32 ? 4 : 0; }

// The memory of one job. numel counts elements, not bytes. in_ptr and out_ptr may be equal.
struct Tensor {
  void* in_ptr;
  void* out_ptr;
  Numel numel;
  DataType data_type;

  // Moves both pointers by `offset` elements. Does not change numel.
  void OffsetPtrs(Numel offset) {
    const uint64_t bytes = offset * DataTypeSize(data_type);
    in_ptr = static_cast<char*>(in_ptr) + bytes;
    out_ptr = static_cast<char*>(out_ptr) + bytes;
  }
};

}  // namespace switchml

#endif  // SWITCHML_COMMON_H_
