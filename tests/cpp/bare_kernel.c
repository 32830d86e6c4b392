// Passes for a kernel without the children of a process in /proc, and without orphans that become
// children of another process than the first one.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>

static int refused(const char* path) {
  const char* const name = strrchr(path, '/');
  return strncmp(path, "/proc/", 6) == 0 && name != NULL && strcmp(name, "/children") == 0;
}

typedef int Open(const char*, int, ...);

static int pass(const char* symbol, const char* path, int flags, mode_t mode) {
  if (refused(path)) {
    errno = ENOENT;
    return -1;
  }
  return ((Open*)dlsym(RTLD_NEXT, symbol))(path, flags, mode);
}

#define OPEN(name)                                                  \
  int name(const char* path, int flags, ...) {                      \
    va_list more;                                                   \
    va_start(more, flags);                                          \
    const int out = pass(#name, path, flags, va_arg(more, mode_t)); \
    va_end(more);                                                   \
    return out;                                                     \
  }

OPEN(open)
OPEN(open64)

int prctl(int option, ...) {
  va_list more;
  va_start(more, option);
  unsigned long given[4];
  for (int i = 0; i < 4; ++i) {
    given[i] = va_arg(more, unsigned long);
  }
  va_end(more);
  if (option == PR_SET_CHILD_SUBREAPER) {
    errno = EINVAL;
    return -1;
  }
  return ((int (*)(int, ...))dlsym(RTLD_NEXT, "prctl"))(option, given[0], given[1], given[2],
                                                        given[3]);
}
