// The part of libc10_cuda.so that programs use: a stream's handle, which is its address here, and
// whether it is captured, which the program says.

namespace c10::cuda {

class CUDAStream {
 public:
  void* stream() const;
};

void* CUDAStream::stream() const { return const_cast<CUDAStream*>(this); }

}  // namespace c10::cuda

extern "C" bool (*simulatedCapture)(const void* stream);
bool (*simulatedCapture)(const void* stream) = nullptr;

extern "C" int cudaStreamIsCapturing(void* stream, int* status) {
  *status = simulatedCapture(stream) ? 1 : 0;
  return 0;
}
