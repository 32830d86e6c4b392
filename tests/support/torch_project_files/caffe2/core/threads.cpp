#include <caffe2/core/config.h>
#include <torch/csrc/generated/names.h>

#include <thread>

extern "C" unsigned NAME_OF_THREADS() { return std::thread::hardware_concurrency(); }
extern "C" const char* torch_tests() { return BUILT_WITH_TESTS; }
