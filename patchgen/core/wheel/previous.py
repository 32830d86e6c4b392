"""Previous wheel of the same name: kept elsewhere, or replaced."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

from patchgen.core.wheel import provenance, sbom
from patchgen.system import files

if TYPE_CHECKING:
    from patchgen.core.wheel.provenance import Provenance

_DIGITS = 12  # of a SHA-256


def move_aside(wheel: str, origin: Provenance) -> str | None:
    """Moves a wheel, and what is written beside it, into a directory named by its SHA-256.

    One that was built from the same pin, flags, homes and variables stays: another build of the
    same takes its place.

    Args:
        wheel: the path that the new wheel is to have.
        origin: of the new wheel.

    Returns:
        The directory; None where nothing was moved.

    Raises:
        OSError: it cannot be moved. The wheel is moved last, so that another run goes on.
    """
    if not os.path.isfile(wheel):
        return None
    digest = files.sha256(wheel)
    if digest == origin.wheel.sha256 or _read_request(wheel, digest) == provenance.describe_request(
        origin
    ):
        return None
    directory, name = os.path.split(wheel)
    kept = os.path.join(directory, digest[:_DIGITS])
    os.makedirs(kept, exist_ok=True)
    for suffix in (provenance.SUFFIX, sbom.SUFFIX, ""):
        with contextlib.suppress(FileNotFoundError):
            os.replace(wheel + suffix, os.path.join(kept, name + suffix))
    return kept


def _read_request(wheel: str, digest: str) -> object:
    """Inputs that a wheel was built from, by its provenance; None where it has none."""
    try:
        with open(wheel + provenance.SUFFIX, encoding="utf-8") as file:
            statement: Any = json.load(file)
        if statement["subject"][0]["digest"]["sha256"] == digest:
            return statement["predicate"]["buildDefinition"]["externalParameters"]
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        pass
    return None
