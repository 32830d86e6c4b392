/* In front of libc: the first epoll instance of a process has room for POLLER_ROOM descriptors. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event* event) {
  static int first = -1;
  static int room;
  static int (*real)(int, int, int, struct epoll_event*);
  if (first < 0) {
    first = epoll;
    room = atoi(getenv("POLLER_ROOM"));
    *(void**)&real = dlsym(RTLD_NEXT, "epoll_ctl");
  }
  const int step = operation == EPOLL_CTL_ADD ? -1 : operation == EPOLL_CTL_DEL ? 1 : 0;
  if (epoll == first && room + step < 0) {
    errno = ENOSPC;
    return -1;
  }
  const int ended = real(epoll, operation, fd, event);
  if (epoll == first && ended == 0) room += step;
  return ended;
}
