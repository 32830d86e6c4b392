"""The bill of materials beside a wheel, in CycloneDX."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from patchgen.errors import file_errors
from patchgen.system import extras, files

if TYPE_CHECKING:
    from patchgen.build.env.lockfile import Lock
    from patchgen.build.provenance import Provenance

SUFFIX = ".cdx.json"


def require() -> None:
    """Checks that CycloneDX's library is there.

    Raises:
        ToolError: it is not.
    """
    extras.require({"cyclonedx": "cyclonedx-python-lib"})


def write(wheel: str, provenance: Provenance, lock: Lock | None) -> str:
    """Writes `<wheel>.cdx.json`; the same values give the same bytes.

    Args:
        wheel: the path of the wheel.
        provenance: its provenance.
        lock: of the environment that it was built in; None where there is none.

    Returns:
        The path of what was written.

    Raises:
        ToolError: CycloneDX's library is not installed.
        FileError: it cannot be written.
    """
    require()
    from patchgen.build import bom  # imports CycloneDX's library

    path = wheel + SUFFIX
    content = bom.document(provenance, lock)
    with file_errors():
        files.replace(os.fsencode(path), content.encode())
    return path
