// The sources that need nothing of the client library, compiled as one: tests of parts link these.
#include "base/file.cpp"
#include "base/names.cpp"
#include "base/reserved_cores.cpp"
#include "join/eal_options.cpp"
