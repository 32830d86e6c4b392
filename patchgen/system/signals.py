"""Signals that end a command, which first cleans up, and signals for its programs."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Collection, Iterator

ENDING = (
    signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGQUIT,
    signal.SIGXCPU,
)  # fmt: skip
"""Signals that end a command, besides SIGINT."""


class _Terminated(BaseException):
    """A signal that ends this process after it has cleaned up."""

    def __init__(self, number: int) -> None:
        self.number = number


@contextlib.contextmanager
def cleaning_up() -> Iterator[None]:
    """Let the block clean up when a signal is to end this process; end by that signal.

    The first process of a container, which only a handler lets a signal end, exits with 128 and the
    number. Later signals are ignored: a closed terminal and its shell each send a SIGHUP.
    """
    got = []

    def terminate(number: int, _frame: object) -> None:
        got.append(number)
        if got[0] == number == signal.SIGINT:
            raise KeyboardInterrupt
        if len(got) == 1:
            raise _Terminated(number)

    taken = {}
    with contextlib.suppress(ValueError):  # not the main thread: its signals are not ours
        for number in (signal.SIGINT, *ENDING):
            if signal.getsignal(number) in {signal.SIG_DFL, signal.default_int_handler}:
                taken[number] = signal.signal(number, terminate)
    received = None
    try:
        yield
    except _Terminated as error:
        received = error.number
        if not taken:
            raise  # to the outer block, which handles the signals
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)
    if received is not None:
        os.kill(os.getpid(), received)
        raise SystemExit(128 + received)


@contextlib.contextmanager
def handing_on(numbers: Collection[int], tell: Callable[[int], object]) -> Iterator[None]:
    """Call `tell` for signals while the block lasts."""
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


@contextlib.contextmanager
def only_interrupts() -> Iterator[None]:
    """Let SIGINT end the block, also after another signal, and ignore the signals of ENDING."""
    interrupt = signal.default_int_handler
    with (
        handing_on(ENDING, lambda _: None),
        handing_on((signal.SIGINT,), lambda number: interrupt(number, None)),
    ):
        yield


def serving() -> contextlib.AbstractContextManager[None]:
    """Let SIGINT and the signals of `cleaning_up` end the block, but not the process."""
    return contextlib.suppress(KeyboardInterrupt, _Terminated)
