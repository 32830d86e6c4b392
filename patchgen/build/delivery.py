"""Brings the verified wheel to its place, with what tells where it came from."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.build import companions, provenance, sbom
from patchgen.patch import patchfile
from patchgen.system import files, process
from patchgen.system.files import Artifact, sha256

if TYPE_CHECKING:
    from patchgen.build.context import Context
    from patchgen.build.env.lockfile import Lock


@dataclass(frozen=True)
class Delivered:
    """The wheel and what lies beside it; commands to install it."""

    wheel: str
    sha256: str
    python: str
    beside: tuple[str, ...]
    commands: tuple[str, ...]


def deliver(context: Context) -> Delivered:
    """Writes what is not there yet, each file whole or not at all.

    Raises:
        ToolError: CycloneDX's library is not installed.
        OSError: a file cannot be written.
    """
    request = context.request
    made = context.made["wheel"]
    python = context.made["env"]["python"]
    os.makedirs(request.output, exist_ok=True)
    wheel = os.path.join(request.output, made["name"])
    if not os.path.isfile(wheel) or sha256(wheel) != made["sha256"]:
        draft = f"{wheel}.part"
        try:
            shutil.copyfile(os.path.join(request.work, "wheel", made["name"]), draft)
            os.replace(draft, wheel)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft)
            raise
    constraints = os.path.join(request.output, "constraints.txt")
    patched = os.path.join(request.output, provenance.PATCH)
    for path, content in {
        patched: patchfile.build(request.options, request.pin),
        constraints: companions.constraints(request.version, request.recipe).encode(),
    }.items():
        files.replace(os.fsencode(path), content)
    origin = _provenance(context)
    beside = (
        patched,
        constraints,
        provenance.write(wheel, origin),
        sbom.write(wheel, origin, _lock(context)),
    )
    commands = companions.commands(python, wheel, constraints, request.recipe)
    return Delivered(wheel, made["sha256"], python, beside, tuple(map(shlex.join, commands)))


def _provenance(context: Context) -> provenance.Provenance:
    request = context.request
    source, environment = context.made["source"], context.made["env"]
    applied, wheel = context.made["patch"], context.made["wheel"]
    return provenance.Provenance(
        wheel=Artifact(wheel["name"], wheel["size"], wheel["sha256"]),
        version=request.version,
        pin=request.pin,
        commits=source["commits"],
        addresses=source["addresses"],
        patch_sha256=applied["sha256"],
        options=request.options,
        client_sha256=applied["client"],
        simulator=applied["simulator"],
        lock_sha256=environment["lock_file"],
        toolchain=environment["toolchain"],
        variables=environment["variables"],
        epoch=source["epoch"],
        build_path=request.source,
    )


def _lock(context: Context) -> Lock | None:
    if context.request.python is not None:
        return None
    from patchgen.build.env import lockfile  # conda-lock is heavy

    return lockfile.read(context.request.lock)


def install(delivered: Delivered) -> None:
    """Installs the wheel for the interpreter that it was built with, in place of another torch.

    Raises:
        ToolError: pip failed.
    """
    process.run(shlex.split(delivered.commands[0]), cwd="/", limit=None, supervised=True)
