#pragma once

#ifdef __cplusplus
extern "C" {
#endif

const char* tiny_text(void);

#ifdef __cplusplus
}
#endif
