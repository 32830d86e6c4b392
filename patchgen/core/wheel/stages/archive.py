"""Stage that packs the wheel from the objects."""

from __future__ import annotations

import glob
import logging
import os
import shutil
from dataclasses import asdict

from patchgen.core.source import Source
from patchgen.core.wheel import provenance, setup_py
from patchgen.core.wheel.values import BuildEnvironment, BuiltWheel, Objects, Patched, Stage
from patchgen.core.wheel.workspace import Making, Workspace
from patchgen.errors import ToolError
from patchgen.system import statement
from patchgen.system.files import digest, sha256
from patchgen.system.wheel import normalise

_LOGGER = logging.getLogger(__name__)


def pack_wheel(
    workspace: Workspace, source: Source, env: BuildEnvironment, patched: Patched, objects: Objects
) -> Making[BuiltWheel]:
    """Run setup.py bdist_wheel, and rewrite the wheel in a fixed order, with an SBOM.

    An unchanged wheel of the same objects, by the same versions of this tool and of its libraries,
    is kept.

    Raises:
        ToolError: setup.py failed.
        FileError: the disk is full.
    """
    request = workspace.request
    builder = statement.describe_builder()  # also of the SBOM in the wheel
    inputs = digest({"compile": asdict(objects), "epoch": source.epoch, "builder": builder})
    found = workspace.journal.get(BuiltWheel, inputs)
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
    network = setup_py.run_setup(workspace, source, env, arguments)
    names = [name for name in os.listdir(rough) if name.endswith(".whl")]
    if len(names) != 1:
        raise ToolError(f"setup.py bdist_wheel wrote {len(names)} wheels to {rough}, not one")
    file = os.path.join(request.wheels, names[0])
    _LOGGER.info("writing %s", names[0])
    sbom = _compose_sbom(workspace, source, env, patched)
    sha = normalise(os.path.join(rough, names[0]), file, source.epoch, sbom)
    shutil.rmtree(rough)
    wheel = BuiltWheel(names[0], sha, os.path.getsize(file), network)
    workspace.journal.put(wheel, inputs)
    return wheel


def _compose_sbom(
    workspace: Workspace, source: Source, env: BuildEnvironment, patched: Patched
) -> bytes:
    from patchgen.core import sbom

    request, environ = workspace.request, env.environ
    if env.lock is not None:
        libraries = os.path.join(workspace.sandbox.reveal(request.prefix), "lib")
        environ = {**environ, "LD_LIBRARY_PATH": libraries}
    objects = glob.glob(os.path.join(glob.escape(request.source), "torch", "lib", "*.so*"))
    inputs = provenance.WheelInputs(request, workspace.sandbox, source, env, patched)
    made = provenance.describe(inputs)
    return sbom.compose(made, sbom.find_libraries(objects, environ), "torch", request.version)
