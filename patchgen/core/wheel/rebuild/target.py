"""Target of a rebuild: files that were made here before, and their provenance."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.core.library import homes, origin
from patchgen.core.wheel.rebuild.shape import check_shape
from patchgen.errors import FileError, OptionsError
from patchgen.system import paths, statement

if TYPE_CHECKING:
    from patchgen.system.statement import Provenance

LIBRARIES = (origin.CLIENT, origin.SIMULATOR)
"""Kinds whose files are a SWITCHML_HOME; all others are one file."""


@dataclass(frozen=True)
class Target:
    """Files to make again."""

    path: str
    """Absolute path of the main file, as `os` takes it."""
    record: str
    """Path of the provenance."""
    provenance: Provenance

    @property
    def files(self) -> dict[str, str]:
        """Paths of the files by the names that they have in the provenance."""
        return list_files(self.provenance, self.path)


def list_files(provenance: Provenance, path: str) -> dict[str, str]:
    """Paths of files by their names in the provenance.

    Args:
        provenance: of the files.
        path: the main file.
    """
    if provenance.kind not in LIBRARIES:
        return {provenance.subjects[0].name: path}
    home = os.path.dirname(os.path.dirname(path))
    return {one.name: os.path.join(home, one.name) for one in provenance.subjects}


def find(given: str, record: str | None, kinds: tuple[str, ...]) -> Target:
    """Finds what the user named: a wheel, a graft, a client library or its SWITCHML_HOME.

    Args:
        given: its path.
        record: path of the provenance; without, the one that lies beside it.
        kinds: that can be made again.

    Raises:
        OptionsError: it has no provenance, or none of these kinds.
        FileError: it is not there.
    """
    path = os.path.abspath(given)
    if os.path.isdir(path):
        path = os.path.join(path, homes.ARCHIVE)
    shown = paths.describe(path)
    if not os.path.isfile(path):
        raise FileError(f"{shown}: no such file; name a wheel, a graft or a client library")
    if record is None and not os.path.isfile(path + statement.SUFFIX):
        raise OptionsError(
            f"{shown}: has no {statement.SUFFIX[1:]} beside it; give it with --provenance FILE"
        )
    record = record or path + statement.SUFFIX
    provenance = statement.read(record)
    if provenance.kind not in kinds:
        raise OptionsError(
            f"{record}: is of a {paths.printable(provenance.kind)}, which this switchml-patch "
            f"cannot make; it makes {', '.join(kinds)}"
        )
    if provenance.kind in LIBRARIES and os.path.basename(path) != origin.ARCHIVE:
        raise OptionsError(f"{record}: is of a client library; name its {origin.ARCHIVE}")
    check_shape(record, provenance)
    return Target(path, record, provenance)
