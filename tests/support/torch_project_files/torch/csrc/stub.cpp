#include <Python.h>

extern "C" PyObject* initModule();

PyMODINIT_FUNC PyInit__C() { return initModule(); }
