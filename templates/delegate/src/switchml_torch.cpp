// All sources, compiled as one: in half the time of each by itself.
#include "SwitchMLInterface.cpp"
#include "SwitchMLJoining.cpp"
#include "base/file.cpp"
#include "base/names.cpp"
#include "base/reserved_cores.cpp"
#include "report/SwitchMLReport.cpp"
#include "sum/SwitchMLLibrary.cpp"
#include "sum/SwitchMLReduction.cpp"
