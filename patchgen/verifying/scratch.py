"""A directory for the length of a verification, removed also when it is told to end."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from typing import TYPE_CHECKING

from patchgen.errors import file_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX = "switchml-verify-"


@contextlib.contextmanager
def directory() -> Iterator[str]:
    """A new directory under TMPDIR, removed at the end, after Ctrl-C, SIGTERM and SIGHUP.

    Raises:
        FileError: there is no room, or the file system refused otherwise.
    """
    with _cleaning_up(), file_errors(), tempfile.TemporaryDirectory(prefix=_PREFIX) as path:
        yield os.path.realpath(path)


class _Terminated(BaseException):
    """SIGTERM or SIGHUP, which would end this process before it has cleaned up."""

    def __init__(self, number: int) -> None:
        self.number = number


@contextlib.contextmanager
def _cleaning_up() -> Iterator[None]:
    """Lets a block clean up after itself when this process is told to end; then it ends."""

    def terminate(number: int, _frame: object) -> None:
        raise _Terminated(number)

    taken = []
    with contextlib.suppress(ValueError):  # not the main thread: its signals are not ours
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, terminate)
                taken.append(number)
    told = None
    try:
        yield
    except _Terminated as error:
        told = error.number
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
    if told is not None:
        os.kill(os.getpid(), told)
