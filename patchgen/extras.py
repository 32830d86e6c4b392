"""Libraries that only some commands need, and that come with an extra of the package."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from patchgen.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Mapping


def require(extra: str, needed: Mapping[str, str], *, where: str = "") -> None:
    """Checks that libraries are there, without importing them.

    Args:
        extra: what installs them.
        needed: names of distributions by names of top-level modules.
        where: what else the installation needs, as `with Python 3.10 or newer`.

    Raises:
        ToolError: one is not; names the command that installs it.
    """
    missing = [name for module, name in needed.items() if not importlib.util.find_spec(module)]
    if missing:
        run = f"{where}, run" if where else "run"
        raise ToolError(
            f"{' and '.join(missing)}: not installed; {run}: "
            f"python3 -m pip install 'switchml-patch[{extra}]'"
        )
