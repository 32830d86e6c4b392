// All sources, compiled as one: in half the time of each by itself.
#include "SwitchMLDelegate.cpp"
#include "SwitchMLInterface.cpp"
#include "join/SwitchMLJoining.cpp"
#include "report/SwitchMLReport.cpp"
#include "sum/SwitchMLLibrary.cpp"
#include "sum/SwitchMLReduction.cpp"
