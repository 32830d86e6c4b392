"""Libraries that only some commands need, and that an extra of the package installs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from patchgen.errors import ToolError
from patchgen.system.interpreter import advise_pip
from patchgen.system.payload import probe

_DISTRIBUTION = "switchml-patch"


def require(needed: Mapping[str, str], *, where: str = "") -> None:
    """Require libraries, without importing them.

    `needed` has distributions by their top-level modules. `where` is another condition for the
    message, such as `with Python 3.10 or newer`.

    Raises:
        ToolError: a library is missing; the message has the command that installs it.
    """
    missing = [name for module, name in needed.items() if not importlib.util.find_spec(module)]
    if missing:
        limits = _limits()
        wanted = [name + limits.get(canonicalize_name(name), "") for name in missing]
        why = f"{' and '.join(missing)}: not installed"
        raise ToolError(f"{why}; {f'{where}, ' if where else ''}{advise(wanted)}")


def advise(packages: Sequence[str]) -> str:
    """Return the commands that install packages beside this one."""
    use = "start the tool with: DIR/bin/python -m patchgen"
    return advise_pip(sys.executable, packages, probe.pip(), use)


def _limits() -> dict[str, str]:
    """Return the package's version specifiers by name; empty if it is not installed."""
    try:
        texts = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return {}
    found = [Requirement(text) for text in texts]
    return {canonicalize_name(one.name): str(one.specifier) for one in found if one.specifier}
