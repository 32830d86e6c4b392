"""Path under which programs of a build see its work directory: a fixed one, if possible."""

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
"""Network of programs that reach only this machine's ranks."""
HOST = "host"
"""This machine's network."""
_ENCLOSURE = os.path.abspath(enclosure.__file__)


@dataclass(frozen=True)
class Sandbox:
    """Work directory of a build, and the path under which its programs see it."""

    work: str
    inside: str
    reason: str = ""
    """Why namespaces are unavailable; empty where they are available."""

    @property
    def fixed(self) -> bool:
        """Whether every work directory is seen at this path, by a namespace or in an image."""
        return self.inside == enclosure.PATH

    @property
    def isolated(self) -> bool:
        """Whether namespaces are available."""
        return not self.reason

    def path(self, path: str) -> str:
        """Translate a path in the work directory to what programs see once it is revealed."""
        return os.path.join(self.inside, os.path.relpath(path, self.work))

    def offline(self, command: Sequence[str]) -> list[str]:
        """Return a command that runs without network, where namespaces are available."""
        if not self.isolated:
            return [*command]
        return [sys.executable, "-IS", _ENCLOSURE, "--", *command]

    def reveal(self, path: str) -> str:
        """Translate a path in the work directory for a program, which then finds it there.

        Mounts the work directory at its fixed path, for this process and its children. There git
        and ssh do not see which user owns a file, so only programs of a build get such a path.

        Raises:
            ToolError: the system refuses.
        """
        self.prepare_threads()
        return self.path(path)

    def prepare_threads(self) -> None:
        """Mount the work directory before threads start that stay, such as those of py-rattler.

        An ordinary user's process with threads could not do it any more.

        Raises:
            ToolError: the system refuses.
        """
        if self.isolated and os.path.isdir(self.work):  # not in a plan for a new directory
            with _refused():
                enclosure.show(self.work)

    def hide(self) -> None:
        """Unmount the work directory at its fixed path, until a path is revealed again.

        Raises:
            ToolError: the system refuses.
        """
        if self.isolated:
            with _refused():
                enclosure.hide()

    def leave_network(self) -> str:
        """Leave the network for good, if possible; return which network remains.

        Raises:
            ToolError: the system refuses.
        """
        if not self.isolated:
            return HOST
        with _refused():
            enclosure.leave_network()
        return LOOPBACK


def show_at(directory: str, target: str) -> None:
    """Mount a directory over another one, for this process and its children.

    Raises:
        ToolError: the system refuses.
    """
    with _refused():
        enclosure.show_at(directory, target)


def find(work: str) -> Sandbox:
    """Return the path of a work directory: fixed where namespaces are available."""
    if enclosure.shown:
        return Sandbox(work, enclosure.PATH)
    tried = capture(Program([sys.executable, "-IS", _ENCLOSURE, "--try"]), limit=LIMIT)
    if tried.code == 0:
        return Sandbox(work, enclosure.PATH)
    return Sandbox(work, work, "".join(tried.last_lines(1)) or tried.how)


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ToolError(f"{enclosure.PATH}: no namespaces: {error.strerror}") from error
