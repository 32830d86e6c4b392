#include "tiny.h"

const char* tiny_text(void) { return "tiny, the pinned one"; }
