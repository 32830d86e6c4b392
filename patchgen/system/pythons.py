"""What a Python interpreter says of itself and of its packages; it may be older than ours."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Callable

from patchgen.errors import OptionsError, ToolError
from patchgen.system import paths

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PROBE = b"""
import json, os, platform, sys, sysconfig
try:
    from importlib.metadata import version
except ImportError:
    try:
        from pkg_resources import get_distribution
        version = lambda name: get_distribution(name).version
    except ImportError:
        version = None
packages = {}
for name in sys.argv[1:]:
    try:
        packages[name] = version(name)
    except Exception:
        pass
header = os.path.join(sysconfig.get_paths()["include"], "Python.h")
print(json.dumps({
    "version": platform.python_version(), "packages": packages,
    "soabi": sysconfig.get_config_var("SOABI"),
    "header": header, "has_header": os.path.exists(header),
}))
"""


@dataclass(frozen=True)
class Interpreter:
    """What one says."""

    version: str
    packages: Mapping[str, str] = field(default_factory=dict)
    """Version by name, of those that were asked for and are there."""
    soabi: str | None = None
    """What the name of an extension module holds, as cpython-39-x86_64-linux-gnu."""
    header: str = ""
    """The path of Python.h, whether it is there or not."""
    has_header: bool = True


def located(name: str) -> str:
    """The absolute path of an interpreter that is given by its path or by a name on PATH.

    Its links stay, which make a virtual environment.

    Raises:
        OptionsError: there is none.
    """
    found = shutil.which(name)
    if found is None:
        inner = os.path.join(name, "bin", "python")
        hint = inner if os.path.exists(inner) else "the path of a python"
        raise OptionsError(f"{name}: no such interpreter; give {hint}")
    return os.path.abspath(found)


def search_path(directory: str, environ: Mapping[str, str]) -> str:
    """PYTHONPATH as an environment has it, with a directory before it."""
    rest = environ.get("PYTHONPATH")
    return os.pathsep.join([directory, *([rest] if rest else [])])


def ask(path: str, names: Sequence[str], run: Callable[[Sequence[str], bytes], str]) -> Interpreter:
    """Asks an interpreter as a build starts it: without the user's own packages, and no bytecode.

    Args:
        path: of the interpreter.
        names: of packages.
        run: gives what a command writes, of the command and its input.

    Raises:
        ToolError: it does not run, or is none.
    """
    answer = run([path, "-EsB", "-", *names], _PROBE)
    try:
        return Interpreter(**json.loads(answer.splitlines()[-1]))
    except (IndexError, TypeError, ValueError) as error:
        raise ToolError(f"{paths.printable(paths.from_native(path))}: is no Python") from error
