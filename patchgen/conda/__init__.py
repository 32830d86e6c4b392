"""The conda environment of the build: environment file -> lock -> prefix, without conda.

conda-lock and py-rattler are heavy, and needed by the modules of this package only.
"""

from __future__ import annotations

import importlib.util

from patchgen.errors import ToolError

_NEEDED = {"conda_lock": "conda-lock", "rattler": "py-rattler"}


def require() -> None:
    """Checks that the libraries of this package are there.

    Raises:
        ToolError: one is not.
    """
    missing = [name for module, name in _NEEDED.items() if not importlib.util.find_spec(module)]
    if missing:
        raise ToolError(
            f"{' and '.join(missing)}: not installed; with Python 3.10 or newer, run: "
            "python3 -m pip install 'switchml-patch[env]'"
        )
