"""PEP 517 build of the plugin's source archive, for the torch that is installed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from patchgen.core.library import archive, homes
from patchgen.core.torch import Torch, probe_torch
from patchgen.errors import FileError, OptionsError, ToolError, file_errors
from patchgen.extras.client import fixes
from patchgen.extras.install import plugin
from patchgen.extras.install.plugin import sdist
from patchgen.extras.lab import simulator
from patchgen.options import VARIABLES, Options, resolve
from patchgen.system import files, paths

UNFIXED = "SWITCHML_ALLOW_UNFIXED"
"""Variable that accepts a library without a needed fix, here as in a rank."""

_CMAKE = "cmake>=3.16"
_HIDING = ("PYTHONPATH", "PYTHONNOUSERSITE")  # pip uses them to hide packages from a build


def requirements(search: str) -> list[str]:
    """Return the requirements that pip installs for a build with this PATH."""
    return [] if shutil.which("cmake", path=search) else [_CMAKE]


def build_wheel(directory: str, root: str, environ: Mapping[str, str], python: str) -> str:
    """Compile the plugin in the unpacked archive `root`, and write its wheel; return its name.

    Raises:
        ToolError: no torch that the plugin can be compiled for, or the compiler failed.
        OptionsError: a variable or the client library is refused.
        FileError: a directory cannot be written.
    """
    torch = _torch(python, environ)
    with _home(environ) as home, files.scratch("cache") as cache:
        options = _options(root, environ, home)
        check(options, environ)
        request = plugin.PluginRequest(options, torch, cache, environ)
        return os.path.basename(plugin.build(request, directory, sbom=False))


def _options(root: str, environ: Mapping[str, str], home: str | None) -> Options:
    """Return the flags of the archive with the homes of the environment."""
    with file_errors(), open(os.path.join(root, sdist.FLAGS), encoding="utf-8") as file:
        flags = json.load(file)["flags"]
    given: dict[str, bool | str | None] = {
        variable.field: variable.name in flags for variable in VARIABLES if variable.boolean
    }
    return resolve({**given, "switchml_home": home}, environ, os.getcwd())


@contextlib.contextmanager
def _home(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the client library of SWITCHML_HOME, else a simulator that is deleted afterwards."""
    named = environ.get("SWITCHML_HOME")
    if named:
        yield named
        return
    with files.scratch("home") as directory:
        simulator.install(Path(directory))
        yield directory


def check(options: Options, environ: Mapping[str, str]) -> None:
    """Check the client library before anything is compiled.

    Raises:
        OptionsError: the library is missing, or lacks a fix that its backend needs.
    """
    missing = homes.find_missing(options)
    if missing:
        raise OptionsError(
            f"{missing[0]}\nset SWITCHML_HOME to a client library, or unset it for the simulator"
        )
    try:
        with file_errors():
            found = archive.read(options.switchml_home)
    except (archive.ArchiveError, FileError) as error:
        raise OptionsError(f"{error}; name another SWITCHML_HOME") from error
    there = found.mark.fixes if found.mark else ()
    absent = [] if found.simulator else fixes.list_lacking(found.backends, there)
    if absent and environ.get(UNFIXED) != "1":
        raise OptionsError(
            f"{paths.printable(options.switchml_home)}: the client library lacks the fixes "
            f"{', '.join(absent)}, and without them sums may be wrong;\n"
            f"build one with: switchml-patch client build ({UNFIXED}=1 takes this one)"
        )


def _torch(python: str, environ: Mapping[str, str]) -> Torch:
    """Return the installed torch, even if pip hides it from the build."""
    environ = {**environ, "SWITCHML_GRAFT": "0"}  # an installed graft may not fit any more
    found = probe_torch(python, environ)
    if found.torch is None:
        plain = {name: value for name, value in environ.items() if name not in _HIDING}
        found = probe_torch(python, plain)
    if found.torch is None:
        raise ToolError(
            f"{paths.printable(python)} cannot import torch, for which the plugin is compiled;\n"
            "install it first, then run pip with --no-build-isolation"
        )
    return found.require_gloo()
