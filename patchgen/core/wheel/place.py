"""Place where programs of a build see its work directory: one fixed path, where that can be had."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchgen.core.wheel.payload import enclosure
from patchgen.errors import ToolError
from patchgen.system.process import LIMIT, Program, capture

LOOPBACK = "loopback"
"""Network of programs that reach nothing but this machine's own ranks."""
HOST = "host"
"""Network of this machine."""
_ENCLOSURE = os.path.abspath(enclosure.__file__)


@dataclass(frozen=True)
class Place:
    """Work directory of a build, and the path under which its programs see it."""

    work: str
    seen: str
    reason: str = ""
    """Reason of the system to give no namespaces; empty where it gives them."""

    @property
    def fixed(self) -> bool:
        """True where the path is the same for every work directory."""
        return not self.reason

    def path(self, path: str) -> str:
        """A path in the work directory, as programs of the build see it."""
        return os.path.join(self.seen, os.path.relpath(path, self.work))

    def offline(self, command: Sequence[str]) -> list[str]:
        """A command without network, where that can be had."""
        if not self.fixed:
            return [*command]
        return [sys.executable, "-IS", _ENCLOSURE, "--", *command]

    def show(self) -> None:
        """Shows the directory at its fixed path to this process and to all that it starts.

        Inside, git and ssh do not see whose files are whose, so that is left until it is needed.

        Raises:
            ToolError: the system refuses.
        """
        if self.fixed and os.path.isdir(self.work):  # a plan may be of one that is not there
            with _refused():
                enclosure.show(self.work)

    @contextlib.contextmanager
    def hide(self) -> Iterator[None]:
        """Runs the block as on a machine where there is no such path.

        Raises:
            ToolError: the system refuses.
        """
        if self.fixed:
            with _refused():
                enclosure.hide()
        yield
        self.show()

    def leave_network(self) -> str:
        """Leaves the network for good, where that can be had; returns what network there is.

        Raises:
            ToolError: the system refuses.
        """
        if not self.fixed:
            return HOST
        with _refused():
            enclosure.leave_network()
        return LOOPBACK


def show_at(directory: str, target: str) -> None:
    """Shows a directory in the place of another one to this process and to all that it starts.

    Raises:
        ToolError: the system refuses.
    """
    with _refused():
        enclosure.show_at(directory, target)


def find(work: str) -> Place:
    """Place of a work directory, by what the system gives. Changes nothing."""
    if enclosure.has_shown():
        return Place(work, enclosure.PATH)
    tried = capture(Program([sys.executable, "-IS", _ENCLOSURE, "--try"]), limit=LIMIT)
    if tried.code == 0:
        return Place(work, enclosure.PATH)
    return Place(work, work, "".join(tried.last_lines(1)) or tried.how)


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ToolError(f"{enclosure.PATH}: no namespaces: {error.strerror}") from error
