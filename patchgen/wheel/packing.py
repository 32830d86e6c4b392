"""The wheel of the objects."""

from __future__ import annotations

import logging
import os
import shutil
from dataclasses import asdict
from typing import TYPE_CHECKING

from patchgen.errors import ToolError
from patchgen.system.files import sha256
from patchgen.system.wheel import normalise
from patchgen.wheel import compiling
from patchgen.wheel.journal import digest
from patchgen.wheel.values import Wheel

if TYPE_CHECKING:
    from patchgen.source import Source
    from patchgen.wheel.place import Place
    from patchgen.wheel.request import Request
    from patchgen.wheel.values import Environment, Objects

_LOG = logging.getLogger(__name__)


def path(request: Request, wheel: Wheel) -> str:
    """Path of the wheel before it is delivered."""
    return os.path.join(request.work, "wheel", wheel.name)


def _inputs(source: Source, objects: Objects) -> str:
    return digest({"compile": asdict(objects), "epoch": source.epoch})


def look(place: Place, source: Source, objects: Objects) -> Wheel | None:
    """The wheel, where it is of these objects and as it was made."""
    wheel = place.journal.get(Wheel, _inputs(source, objects))
    if wheel is None:
        return None
    file = path(place.request, wheel)
    return wheel if os.path.isfile(file) and sha256(file) == wheel.sha256 else None


def make(place: Place, source: Source, environment: Environment, objects: Objects) -> Wheel:
    """Runs setup.py bdist_wheel, and writes the wheel anew in a fixed order.

    Raises:
        ToolError: setup.py failed.
        FileError: the disk is full.
    """
    request = place.request
    place.journal.drop(Wheel)
    rough, final = (os.path.join(request.work, name) for name in ("dist", "wheel"))
    for directory in (rough, final):
        shutil.rmtree(directory, ignore_errors=True)
        os.mkdir(directory)
    command = ["bdist_wheel", "--dist-dir", rough]
    compiling.setup_py(place, source, environment, command)
    names = [name for name in os.listdir(rough) if name.endswith(".whl")]
    if len(names) != 1:
        raise ToolError(f"setup.py bdist_wheel wrote {len(names)} wheels to {rough}, not one")
    file = os.path.join(final, names[0])
    _LOG.info(f"writing {names[0]}")
    made = normalise(os.path.join(rough, names[0]), file, source.epoch)
    shutil.rmtree(rough)
    wheel = Wheel(names[0], made, os.path.getsize(file))
    place.journal.put(wheel, _inputs(source, objects))
    return wheel
