"""The conda environment of the build: environment file -> lock -> prefix, without conda.

conda-lock and py-rattler are heavy, and needed by the modules of this package only.
"""

from __future__ import annotations

import os
import platform as machine

from patchgen.system import extras

SHIPPED = os.path.dirname(os.path.abspath(__file__))
"""Directory of the environment files that come with the tool."""

_PLATFORMS = {"x86_64": "linux-64", "aarch64": "linux-aarch64", "ppc64le": "linux-ppc64le"}
_NEEDED = {"conda_lock": "conda-lock", "rattler": "py-rattler"}


def require() -> None:
    """Checks that the libraries of this package are there.

    Raises:
        ToolError: one is not.
    """
    extras.require(_NEEDED, where="with Python 3.10 or newer")


def locate(name: str, directory: str) -> str:
    """Path of an environment file in a directory, else of the tool's own file of that name."""
    path, shipped = os.path.join(directory, name), os.path.join(SHIPPED, name)
    bare = os.path.basename(name) == name
    return shipped if bare and not os.path.exists(path) and os.path.isfile(shipped) else path


def platform() -> str:
    """This machine, as channels name it."""
    return _PLATFORMS.get(machine.machine(), machine.machine())
