"""The bill of materials beside a wheel, in CycloneDX."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from patchgen.errors import file_errors
from patchgen.system import extras, files

if TYPE_CHECKING:
    from patchgen.core.wheel.env.lockfile import Lock
    from patchgen.core.wheel.linked import Linked
    from patchgen.core.wheel.provenance import WheelInputs

SUFFIX = ".cdx.json"
NEEDED = {"cyclonedx": "cyclonedx-python-lib", "elftools": "pyelftools"}
"""Distributions of the extra `build` by the names of their modules."""


def require() -> None:
    """Checks that the libraries are there that write a bill of materials.

    Raises:
        ToolError: one is not.
    """
    extras.require(NEEDED)


def write(wheel: str, inputs: WheelInputs, lock: Lock | None, linked: Linked) -> str:
    """Writes `<wheel>.cdx.json`; the same values give the same bytes.

    Args:
        wheel: the path of the wheel.
        inputs: what it was made from.
        lock: of the environment that it was built in; None where there is none.
        linked: what it consists of, and what it needs.

    Returns:
        The path of what was written.

    Raises:
        ToolError: a library is not installed.
        FileError: it cannot be written.
    """
    require()
    from patchgen.core.wheel import bom  # imports CycloneDX's library

    path = wheel + SUFFIX
    content = bom.document(inputs, lock, linked)
    with file_errors():
        files.replace(os.fsencode(path), content.encode())
    return path
