"""CMake project that compiles the client library."""
