// All sources, compiled as one: in half the time of each by itself.
#include "base/file.cpp"
#include "base/names.cpp"
#include "base/reserved_cores.cpp"
#include "interface.cpp"
#include "joining.cpp"
#include "report/report.cpp"
#include "sum/library.cpp"
#include "sum/reduction.cpp"
