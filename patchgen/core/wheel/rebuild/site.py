"""Site of a rebuild: what this machine and the user give for it."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from patchgen.core.wheel import place, provenance, variables
from patchgen.options import DEV_ROOT, VARIABLES
from patchgen.system.native import cache as caches
from patchgen.system.native import tools

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.core.patch.pins import Pin
    from patchgen.core.source import Places
    from patchgen.core.wheel.place import Place
    from patchgen.system.statement import Provenance

_OPTIONS = frozenset({variable.name for variable in (*VARIABLES, DEV_ROOT)})


@dataclass(frozen=True)
class Site:
    """Directories, programs and sources that a rebuild may use. Paths are absolute."""

    work: str
    """Directory to build in. That of a wheel's build stays there."""
    cache: str
    environ: Mapping[str, str]
    """Environment of the user."""
    pins: tuple[Pin, ...]
    """Pins that are known, that of the user first."""
    pytorch: str | None
    """Pin as the user named it."""
    python: str | None
    """Interpreter to use instead of the recorded one."""
    lock: str
    """Lock of the environment."""
    source: str | None
    """Tree of PyTorch."""
    places: Places
    program: tuple[str, ...] = (sys.executable, "-m", "patchgen")
    """This program."""
    scratch: str = ""
    """New directory in `work` for what is made, while that is done."""

    @property
    def fresh_cache(self) -> str:
        """Cache with the sources of ours, and nothing that was compiled."""
        return os.path.join(self.scratch, "cache")

    def make_cache(self) -> None:
        """Makes that cache.

        Raises:
            OSError: it cannot be written.
        """
        os.mkdir(self.fresh_cache)
        there = os.listdir(self.cache) if os.path.isdir(self.cache) else []
        for name in {*there} - {caches.COMPILED}:
            os.symlink(os.path.join(self.cache, name), os.path.join(self.fresh_cache, name))

    @property
    def place_words(self) -> list[str]:
        """The places as options."""
        mirrors = [word for one in self.places.mirrors for word in ("--mirror", one)]
        return [*mirrors, *(w for one in self.places.references for w in ("--reference", one))]

    @cached_property
    def place(self) -> Place:
        """Place of the work directory, by what the system gives."""
        return place.find(self.work)

    def find_pin(self, recorded: Mapping[str, str]) -> Pin | None:
        """The pin of a provenance; None where it is not known here."""
        return next((pin for pin in self.pins if pin.commit == recorded["commit"]), None)

    def environment(self, made: Provenance) -> dict[str, str]:
        """Environment to make something again: the recorded variables instead of the user's own.

        CC and CXX of the user count first, then those recorded, then the recorded compiler. A lock
        has its own.
        """
        whole = made.kind == provenance.KIND
        kept = {
            name: value
            for name, value in self.environ.items()
            if name not in _OPTIONS
            and not (variables.is_read(name) if whole else tools.is_read(name))
        }
        if whole and made.find_digest(provenance.LOCK) is not None:
            return kept
        recorded = made.request["variables"]
        if whole:  # it gets the others as options
            recorded = {name: recorded[name] for name in tools.COMPILERS if name in recorded}
        own = {name: self.environ[name] for name in tools.COMPILERS if self.environ.get(name)}
        named = made.resolved["toolchain"]["compiler"]
        if "CXX" not in recorded and shutil.which(named) and named != shutil.which("c++"):
            kept["CXX"] = named
        return {**kept, **recorded, **own}

    def find_interpreter(self, recorded: str) -> str | None:
        """Interpreter that the user named, else the recorded one; None where that is not there."""
        if self.python is not None:
            return self.python
        return recorded if os.access(recorded, os.X_OK) else None
