"""Probe of an interpreter.

An interpreter gets it on stdin, followed by a call of `main` and by further code. It runs under
Python 3.6 and newer, and imports nothing of this package. Each answer is a line, written at once,
since the next step may end the process.
"""

import importlib
import importlib.util
import json
import os
import platform
import site
import sys
import sysconfig
from typing import Any, Callable

MARK = "switchml-probe: "
SELF, PACKAGES = "self", "packages"
WORKS, MANAGED, MISSING = "works", "managed", "missing"
"""States of an interpreter's pip. A managed one installs nothing: the system owns the packages."""


def write(step: str, **what: Any) -> None:
    """Write one line, on a line of its own even if a library left one unfinished."""
    sys.stdout.write("\n" + MARK + json.dumps(dict(what, step=step)) + "\n")
    sys.stdout.flush()


def answer(step: str, look: "Callable[[], Any]") -> bool:
    """Write that a step begins, then its answer or its problem."""
    write(step)
    try:
        found = look()
    except Exception as error:  # noqa: BLE001  # any exception of an installation is a finding
        write(step, error=f"{type(error).__name__}: {error}".strip())
        return False
    write(step, found=found)
    return True


def interpreter() -> "dict[str, Any]":
    """Return facts about the interpreter."""
    variables = sysconfig.get_config_var
    include = sysconfig.get_paths()["include"]
    return {
        "executable": sys.executable,
        "version": platform.python_version(),
        "implementation": sys.implementation.name,
        "platform": sysconfig.get_platform(),
        "tag": "cp{}{}".format(*sys.version_info[:2]),
        "abi_flags": getattr(sys, "abiflags", ""),
        "soabi": variables("SOABI"),
        "suffix": variables("EXT_SUFFIX"),
        "include": include,
        "has_header": os.path.exists(os.path.join(include, "Python.h")),
        "purelib": sysconfig.get_paths()["purelib"],
        "user": site.getusersitepackages() if site.ENABLE_USER_SITE else None,
        "pip": pip(),
    }


def pip() -> str:
    """Return the state of the interpreter's pip."""
    mark = os.path.join(sysconfig.get_paths()["stdlib"], "EXTERNALLY-MANAGED")
    if sys.prefix == sys.base_prefix and os.path.exists(mark):
        return MANAGED
    return WORKS if importlib.util.find_spec("pip") else MISSING


def versions(names: "list[str]") -> "dict[str, str]":
    """Return the versions of those packages that are installed."""
    found = {}
    for name in names:
        try:
            found[name] = _version(name)
        except Exception:  # noqa: BLE001, PERF203, S112  # exceptions differ by library
            continue
    return found


def _version(name: str) -> str:
    try:
        metadata = importlib.import_module("importlib.metadata")  # since Python 3.8
    except ImportError:
        return str(importlib.import_module("pkg_resources").get_distribution(name).version)
    return str(metadata.version(name))


def main(packages: "list[str]") -> None:
    """Answer with facts about the interpreter, and with versions of packages."""
    sys.path[:] = [path for path in sys.path if path]  # without the current directory
    answer(SELF, interpreter)
    answer(PACKAGES, lambda: versions(packages))
