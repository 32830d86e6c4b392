"""Brings the verified wheel to its place, with what tells where it came from."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.build import companions, former, linked, provenance, sbom
from patchgen.build.linked import Linked
from patchgen.patch import patchfile
from patchgen.system import files, process
from patchgen.system.files import Artifact

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
    kept: str | None
    """Where the wheel is that had this name before, if it was built from something else."""


def deliver(context: Context) -> Delivered:
    """Writes what is not there yet, each file whole or not at all.

    Raises:
        ToolError: a library that writes the bill of materials is not installed.
        OSError: a file cannot be written.
    """
    request = context.request
    made = context.made["wheel"]
    python = context.made["env"]["python"]
    os.makedirs(request.output, exist_ok=True)
    wheel = os.path.join(request.output, made["name"])
    origin = _provenance(context)
    kept = former.keep(wheel, origin)
    if not os.path.isfile(wheel) or files.sha256(wheel) != made["sha256"]:
        source = os.path.join(request.work, "wheel", made["name"])
        with open(source, "rb") as verified, files.replacing(wheel) as target:
            shutil.copyfileobj(verified, target)
    constraints = os.path.join(request.output, "constraints.txt")
    patched = os.path.join(request.output, provenance.PATCH)
    for path, content in {
        patched: patchfile.build(request.options, request.pin),
        constraints: companions.constraints(request.version, request.recipe).encode(),
    }.items():
        files.replace(os.fsencode(path), content)
    bill = wheel + sbom.SUFFIX
    # What is linked follows from the wheel: to read that again takes seconds.
    if not provenance.written(wheel, origin) or not os.path.isfile(bill):
        sbom.write(wheel, origin, _lock(context), _linked(context, wheel))
    beside = (patched, constraints, provenance.write(wheel, origin), bill)
    commands = companions.commands(python, wheel, constraints, request.recipe)
    return Delivered(wheel, made["sha256"], python, beside, tuple(map(shlex.join, commands)), kept)


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


def _linked(context: Context, wheel: str) -> Linked:
    request, environ = context.request, context.made["env"]["environ"]
    commits = context.made["source"]["commits"]
    return Linked(
        linked.repositories(request.source, map(str, commits), environ),
        linked.libraries(wheel, None if request.python else request.prefix, environ),
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
