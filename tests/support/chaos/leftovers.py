"""Things that ranks and switches may leave behind: processes, sockets, shared memory, files."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from support.waiting import descendants

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_LISTENS = "0A"  # in /proc/net/tcp
_SETTLE = 10.0  # seconds that the last of it may take
_SHARED = Path("/dev/shm")  # noqa: S108  # nothing is made there


class Leftovers:
    """Compares what is there with what there was. Orphans become children of this process."""

    def __init__(self, temporary: Path) -> None:
        """Takes note of what is there.

        Args:
            temporary: directory of all temporary files.
        """
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        self._temporary = temporary
        self._before = set(self._list(set()))

    def find(self, pids: Collection[int]) -> list[str]:
        """Names what is left, a line each; it may take some seconds to go.

        Args:
            pids: processes whose numbers may be in names of shared memory.
        """
        deadline = time.monotonic() + _SETTLE
        while (found := set(self._list(pids)) - self._before) and time.monotonic() < deadline:
            time.sleep(0.1)
        ctypes.CDLL(None).prctl(_SUBREAPER, 0, 0, 0, 0)
        return sorted(found)

    def _list(self, pids: Collection[int]) -> Iterator[str]:
        own = set()
        for pid in (os.getpid(), *descendants(os.getpid())):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
                if words:  # else it has ended
                    yield f"process {pid}: {words.decode(errors='replace')[:100]}"
                for opened in Path(f"/proc/{pid}/fd").iterdir():
                    with contextlib.suppress(OSError):
                        own.add(os.readlink(opened))
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            words_of_line = line.split()
            if words_of_line[3] == _LISTENS and f"socket:[{words_of_line[9]}]" in own:
                yield f"socket that listens on {words_of_line[1]}"
        for path in _SHARED.iterdir():
            if any(int(number) in pids for number in re.findall(r"\d+", path.name)):
                yield f"shared memory {path}"
        for path in self._temporary.rglob("*"):
            yield f"file {path}"
