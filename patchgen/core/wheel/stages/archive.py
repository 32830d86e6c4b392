"""The wheel, packed from the objects."""

from __future__ import annotations

import logging
import os
import shutil
from dataclasses import asdict
from typing import TYPE_CHECKING

from patchgen.core.wheel import setup_py
from patchgen.core.wheel.values import Wheel
from patchgen.errors import ToolError
from patchgen.system.files import digest, sha256
from patchgen.system.wheel import normalise

if TYPE_CHECKING:
    from patchgen.core.wheel.session import Session

_LOGGER = logging.getLogger(__name__)


def _digest_inputs(session: Session) -> str:
    return digest({"compile": asdict(session.compile), "epoch": session.source.epoch})


def look(session: Session) -> Wheel | None:
    """Reads the wheel, where it was packed from these objects and has not changed since."""
    wheel = session.journal.get(Wheel, _digest_inputs(session))
    if wheel is None:
        return None
    file = os.path.join(session.request.wheels, wheel.name)
    return wheel if os.path.isfile(file) and sha256(file) == wheel.sha256 else None


def make(session: Session) -> Wheel:
    """Runs setup.py bdist_wheel, and writes the wheel anew in a fixed order.

    Raises:
        ToolError: setup.py failed.
        FileError: the disk is full.
    """
    request = session.request
    session.journal.drop(Wheel)
    rough = os.path.join(request.work, "dist")
    for directory in (rough, request.wheels):
        shutil.rmtree(directory, ignore_errors=True)
        os.mkdir(directory)
    seen = session.place.path(rough)
    network = setup_py.run_setup(session, ["bdist_wheel", "--dist-dir", seen])
    names = [name for name in os.listdir(rough) if name.endswith(".whl")]
    if len(names) != 1:
        raise ToolError(f"setup.py bdist_wheel wrote {len(names)} wheels to {rough}, not one")
    file = os.path.join(request.wheels, names[0])
    _LOGGER.info("writing %s", names[0])
    sha = normalise(os.path.join(rough, names[0]), file, session.source.epoch)
    shutil.rmtree(rough)
    wheel = Wheel(names[0], sha, os.path.getsize(file), network)
    session.journal.put(wheel, _digest_inputs(session))
    return wheel
