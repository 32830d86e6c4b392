"""Signals that end a command, which first cleans up, and those that go on to its programs."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Collection, Iterator

ENDING = (
    signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGQUIT,
    signal.SIGXCPU,
)  # fmt: skip
"""Signals that end a command, beside that of Ctrl-C."""


class _Terminated(BaseException):
    """A signal that would end this process before it has cleaned up."""

    def __init__(self, number: int) -> None:
        self.number = number


@contextlib.contextmanager
def cleaning_up() -> Iterator[None]:
    """Lets a block clean up after itself when this process is told to end; then it ends.

    It is told once: a terminal that is closed, and its shell, each send a SIGHUP.
    """
    got = []

    def terminate(number: int, _frame: object) -> None:
        got.append(number)
        if len(got) == 1:
            raise _Terminated(number)

    taken = []
    with contextlib.suppress(ValueError):  # not the main thread: its signals are not ours
        for number in ENDING:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, terminate)
                taken.append(number)
    told = None
    try:
        yield
    except _Terminated as error:
        told = error.number
        if not taken:
            raise  # to the block around, which has taken them
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
    if told is not None:
        os.kill(os.getpid(), told)


@contextlib.contextmanager
def handing_on(numbers: Collection[int], tell: Callable[[int], object]) -> Iterator[None]:
    """Gives signals to `tell` instead, while a block lasts."""
    taken = {}
    with contextlib.suppress(ValueError):  # not the main thread: its signals are not ours
        for number in numbers:
            if signal.getsignal(number) not in {signal.SIG_IGN, None}:
                taken[number] = signal.signal(number, lambda number, _: tell(number))
    try:
        yield
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)


def serving() -> contextlib.AbstractContextManager[None]:
    """Lets Ctrl-C and the signals of `cleaning_up` end a block, and go on behind it."""
    return contextlib.suppress(KeyboardInterrupt, _Terminated)
