"""Stage that packs the wheel from the objects."""

from __future__ import annotations

import glob
import logging
import os
import shutil
from dataclasses import asdict

from patchgen.core.wheel import provenance, setup_py
from patchgen.core.wheel.values import BuiltWheel, Objects, Stage, WheelInputs
from patchgen.core.wheel.workspace import Making, Workspace
from patchgen.errors import ToolError
from patchgen.system import statement
from patchgen.system.files import digest, sha256
from patchgen.system.wheel import normalise

_LOGGER = logging.getLogger(__name__)


def pack_wheel(workspace: Workspace, inputs: WheelInputs, objects: Objects) -> Making[BuiltWheel]:
    """Run setup.py bdist_wheel, and rewrite the wheel in a fixed order, with an SBOM.

    An unchanged wheel of the same objects, by the same versions of this tool and of its libraries,
    is kept.

    Raises:
        ToolError: setup.py failed.
        FileError: the disk is full.
    """
    request = workspace.request
    builder = statement.describe_builder()  # also of the SBOM in the wheel
    epoch = inputs.source.epoch
    recorded = digest({"compile": asdict(objects), "epoch": epoch, "builder": builder})
    found = workspace.journal.get(BuiltWheel, recorded)
    if found is not None:
        file = os.path.join(request.wheels, found.name)
        if os.path.isfile(file) and sha256(file) == found.sha256:
            return found
    yield Stage.WHEEL
    workspace.journal.drop(BuiltWheel)
    rough = os.path.join(request.work, "dist")
    for directory in (rough, request.wheels):
        shutil.rmtree(directory, ignore_errors=True)
        os.mkdir(directory)
    arguments = ["bdist_wheel", "--dist-dir", workspace.sandbox.path(rough)]
    network = setup_py.run_setup(workspace, inputs, arguments)
    names = [name for name in os.listdir(rough) if name.endswith(".whl")]
    if len(names) != 1:
        raise ToolError(f"setup.py bdist_wheel wrote {len(names)} wheels to {rough}, not one")
    file = os.path.join(request.wheels, names[0])
    _LOGGER.info("writing %s", names[0])
    sbom = _compose_sbom(inputs)
    sha = normalise(os.path.join(rough, names[0]), file, epoch, sbom)
    shutil.rmtree(rough)
    wheel = BuiltWheel(names[0], sha, os.path.getsize(file), network)
    workspace.journal.put(wheel, recorded)
    return wheel


def _compose_sbom(inputs: WheelInputs) -> bytes:
    from patchgen.core import sbom

    request, environ = inputs.request, inputs.env.environ
    if inputs.env.lock is not None:
        libraries = os.path.join(inputs.sandbox.reveal(request.prefix), "lib")
        environ = {**environ, "LD_LIBRARY_PATH": libraries}
    objects = glob.glob(os.path.join(glob.escape(request.source), "torch", "lib", "*.so*"))
    described = provenance.describe(inputs)
    return sbom.compose(described, sbom.find_libraries(objects, environ), "torch", request.version)
