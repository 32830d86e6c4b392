// All sources, compiled as one: in half the time of each by itself.
#include "interface.cpp"
#include "joining.cpp"
#include "parts.cpp"
#include "report/report.cpp"
#include "sum/library.cpp"
#include "sum/reduction.cpp"
