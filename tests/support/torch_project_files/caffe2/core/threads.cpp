#include <thread>

extern "C" unsigned torch_threads() { return std::thread::hardware_concurrency(); }
