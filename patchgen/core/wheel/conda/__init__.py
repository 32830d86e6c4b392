"""Conda environment of a build: environment file -> lock -> prefix, without conda.

Only modules of this package import conda-lock and py-rattler, which are slow to import.
"""

from __future__ import annotations

import os
import platform as machine

from patchgen.system import dependencies

SHIPPED = os.path.dirname(os.path.abspath(__file__))
"""Directory of the environment files in this package."""

_PLATFORMS = {"x86_64": "linux-64", "aarch64": "linux-aarch64", "ppc64le": "linux-ppc64le"}
_NEEDED = {"conda_lock": "conda-lock", "rattler": "py-rattler"}


def require() -> None:
    """Require the libraries of this package.

    Raises:
        ToolError: a library is missing.
    """
    dependencies.require(_NEEDED, where="with Python 3.10 or newer")


def locate(name: str, directory: str) -> str:
    """Return the path of an environment file in a directory, else of the shipped one."""
    path, shipped = os.path.join(directory, name), os.path.join(SHIPPED, name)
    bare = os.path.basename(name) == name
    return shipped if bare and not os.path.exists(path) and os.path.isfile(shipped) else path


def platform() -> str:
    """Return the conda platform of this machine, such as linux-64."""
    return _PLATFORMS.get(machine.machine(), machine.machine())
