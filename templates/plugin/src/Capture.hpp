/// Tests whether a stream is being captured into a CUDA graph.
#pragma once

#include <c10/core/Stream.h>

namespace switchml_delegate {

/// True while the stream is being captured. Any thread may call this.
///
///   1. A torch whose devices have isStreamCapturing() answers itself.
///   2. With an older torch, CUDA answers: see isCudaCapturing().
bool isCapturing(const c10::Stream& stream);

/// True if CUDA says that the stream is being captured. False without CUDA.
///
///   1. Finds libc10_cuda.so if torch has loaded it. Never loads it.
///   2. Gets the stream's cudaStream_t from CUDAStream::stream(). A CUDAStream consists of a
///      c10::Stream alone, so no header of CUDA is needed.
///   3. Calls cudaStreamIsCapturing().
bool isCudaCapturing(const c10::Stream& stream);

}  // namespace switchml_delegate
