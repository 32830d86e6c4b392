"""The conda environment of the build: environment file -> lock -> prefix, without conda.

conda-lock and py-rattler are heavy, and needed by the modules of this package only.
"""

from __future__ import annotations

import platform as machine

from patchgen.system import extras

_PLATFORMS = {"x86_64": "linux-64", "aarch64": "linux-aarch64", "ppc64le": "linux-ppc64le"}
_NEEDED = {"conda_lock": "conda-lock", "rattler": "py-rattler"}


def require() -> None:
    """Checks that the libraries of this package are there.

    Raises:
        ToolError: one is not.
    """
    extras.require(_NEEDED, where="with Python 3.10 or newer")


def platform() -> str:
    """This machine, as channels name it."""
    return _PLATFORMS.get(machine.machine(), machine.machine())
