/* Empty: what the linker is told about this library is all there is to it. */
