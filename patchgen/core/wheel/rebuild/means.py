"""Means of a rebuild: what this machine and the user give for it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from patchgen.core.patch.pins import Pin
from patchgen.core.source import Places
from patchgen.core.wheel import place, provenance, variables
from patchgen.core.wheel.place import Place
from patchgen.core.wheel.rebuild.original import Original
from patchgen.errors import OptionsError
from patchgen.options import DEV_ROOT, VARIABLES
from patchgen.system.native import tools

_OPTIONS = frozenset({variable.name for variable in (*VARIABLES, DEV_ROOT)})


@dataclass(frozen=True)
class Means:
    """Directories, programs and sources that a rebuild may use. Paths are absolute."""

    work: str
    """Directory to build in. That of a wheel's build stays there."""
    cache: str
    environ: Mapping[str, str]
    """Environment of the user."""
    pins: tuple[Pin, ...]
    """Pins that are known, that of the user first."""
    python: str | None
    """Interpreter to use instead of the recorded one."""
    lock: str
    """Lock of the environment."""
    source: str | None
    """Tree of PyTorch."""
    places: Places

    @cached_property
    def place(self) -> Place:
        """Place of the work directory, by what the system gives."""
        return place.find(self.work)

    def find_pin(self, commit: str) -> Pin:
        """Finds the pin of a commit.

        Raises:
            OptionsError: it is not known here.
        """
        for pin in self.pins:
            if commit in (pin.commit, *pin.grafts):
                return pin._replace(commit=commit)
        raise OptionsError(f"no pin of commit {commit}; give its file with --pytorch FILE")

    def find_interpreter(self, recorded: str) -> str:
        """Finds the interpreter that the user named, else the recorded one.

        Raises:
            OptionsError: that is not there.
        """
        if self.python is None and not os.access(recorded, os.X_OK):
            raise OptionsError(f"no {recorded}; give the interpreter with --python PYTHON")
        return self.python or recorded

    def make_environ(self, original: Original) -> dict[str, str]:
        """Makes the environment for a build: the recorded variables instead of the user's own.

        CC and CXX of the user count first, then those recorded, then the recorded compiler. A lock
        has its own.
        """
        recorded = original.pairs("request.variables")
        whole = original.provenance.kind == provenance.KIND
        read = variables.is_read if whole else tools.is_read
        kept = {
            name: value
            for name, value in self.environ.items()
            if name not in _OPTIONS and not read(name)
        }
        if whole:  # it gets the others as settings
            if original.provenance.find_digest(provenance.LOCK) is not None:
                return kept
            recorded = {name: recorded[name] for name in tools.COMPILERS if name in recorded}
        elif not all(name.isidentifier() and tools.is_read(name) for name in recorded):
            raise original.refuse("request.variables")
        own = {name: self.environ[name] for name in tools.COMPILERS if self.environ.get(name)}
        named = original.text("resolved.toolchain.compiler")
        if "CXX" not in recorded and shutil.which(named) and named != shutil.which("c++"):
            kept["CXX"] = named
        return {**kept, **recorded, **own}
