#include <tiny.h>

extern "C" const char* torch_third_party() { return tiny_text(); }
