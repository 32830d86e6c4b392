"""The conda environment of the build: environment file -> lock -> prefix, without conda.

conda-lock and py-rattler are heavy, and needed by the modules of this package only.
"""

from __future__ import annotations

from patchgen.system import extras

_NEEDED = {"conda_lock": "conda-lock", "rattler": "py-rattler"}


def require() -> None:
    """Checks that the libraries of this package are there.

    Raises:
        ToolError: one is not.
    """
    extras.require(_NEEDED, where="with Python 3.10 or newer")
