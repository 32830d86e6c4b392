"""Request for a rebuild."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from patchgen.core.patch.pins import Pin
from patchgen.core.source.remotes import Remotes
from patchgen.core.wheel import provenance, sandbox, variables
from patchgen.core.wheel.rebuild.recorded import RecordedBuild
from patchgen.core.wheel.sandbox import Sandbox
from patchgen.errors import OptionsError
from patchgen.options import DEV_ROOT, VARIABLES
from patchgen.system.native import tools

_OPTIONS = frozenset({variable.name for variable in (*VARIABLES, DEV_ROOT)})


@dataclass(frozen=True)
class RebuildRequest:
    """Directories, programs and sources for a rebuild. Paths are absolute."""

    work: str
    """Directory to build in; the build of a wheel stays there."""
    cache: str
    environ: Mapping[str, str]
    """Environment of the user."""
    pins: tuple[Pin, ...]
    """Known pins, the user's first."""
    python: str | None
    """Interpreter instead of the recorded one."""
    lock: str
    """Path of the environment's lock."""
    source: str | None
    """Path of PyTorch's tree."""
    remotes: Remotes

    @cached_property
    def sandbox(self) -> Sandbox:
        """Path under which programs see the work directory."""
        return sandbox.find(self.work)

    def find_pin(self, commit: str) -> Pin:
        """Return the pin of a commit.

        Raises:
            OptionsError: there is no such pin.
        """
        for pin in self.pins:
            if commit in (pin.commit, *pin.grafts):
                return pin._replace(commit=commit)
        raise OptionsError(f"no pin of commit {commit}; give its file with --pytorch FILE")

    def find_interpreter(self, recorded: str) -> str:
        """Return the interpreter that the user named, else the recorded one.

        Raises:
            OptionsError: the recorded one is missing.
        """
        if self.python is None and not os.access(recorded, os.X_OK):
            raise OptionsError(f"no {recorded}; give the interpreter with --python PYTHON")
        return self.python or recorded

    def make_environ(self, original: RecordedBuild) -> dict[str, str]:
        """Return the environment for a build, with the recorded variables.

        CC and CXX come from the user, else from the record, else from the recorded compiler. A lock
        has its own compiler.
        """
        recorded = original.pairs("request.variables")
        whole = original.provenance.kind == provenance.KIND
        read = variables.is_read if whole else tools.is_read
        kept = {
            name: value
            for name, value in self.environ.items()
            if name not in _OPTIONS and not read(name)
        }
        if whole:  # the other variables become settings
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
