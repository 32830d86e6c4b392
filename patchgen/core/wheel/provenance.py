"""Provenance of a wheel, in a file beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from patchgen.core.library import origin
from patchgen.core.patch.pins import Pin
from patchgen.core.source import Source
from patchgen.core.source.addresses import SOURCE
from patchgen.core.wheel.values import Environment, Patched
from patchgen.core.wheel.workspace import Workspace
from patchgen.options import Options
from patchgen.system import paths, statement
from patchgen.system.files import Artifact
from patchgen.system.statement import Provenance

KIND = "wheel"
PATCH = "switchml_pytorch.patch"
LOCK = "conda-lock.yml"
CLIENT = origin.ARCHIVE
SUFFIX = statement.SUFFIX


@dataclass(frozen=True)
class Isolation:
    """Isolation of a build from its machine."""

    reason: str
    """Why namespaces were unavailable; empty where they were available."""
    network: Mapping[str, str]
    """Network access by stage: loopback or host."""


@dataclass(frozen=True)
class WheelInputs:
    """Everything that the bytes of a wheel depend on."""

    wheel: Artifact | None
    """None where the wheel is not packed yet."""
    version: str
    pin: Pin
    commits: Mapping[str, str]
    """Commits of the source's repositories by path; the empty path is PyTorch itself."""
    addresses: Mapping[str, str]
    """Recorded URLs of the repositories by path."""
    patch_sha256: str
    options: Options
    client_sha256: str | None
    """SHA-256 of the client library's archive; None if it was missing."""
    simulator: bool
    """Whether the client library is the simulator."""
    lock_sha256: str | None
    """SHA-256 of conda-lock.yml; None where the user named an interpreter."""
    toolchain: Mapping[str, object]
    """Paths and versions of interpreter, compiler, cmake and ninja."""
    variables: Mapping[str, str]
    """Environment variables of the build."""
    epoch: int
    """SOURCE_DATE_EPOCH, in seconds since 1970."""
    build_path: str
    """Directory of the source as the build saw it, which is in the objects."""
    isolation: Isolation
    accepted: tuple[str, ...] = ()
    """Keys of `check.ACCEPTABLE` that the user accepted."""
    without: tuple[str, ...] = ()
    """Submodules that were left out."""
    client: Mapping[str, object] = field(default_factory=dict)
    """Provenance of the client library, from `origin.describe_home`."""


def gather_inputs(
    workspace: Workspace, source: Source, env: Environment, patch: Patched
) -> WheelInputs:
    """Return the inputs of a wheel that is not packed yet."""
    request = workspace.request
    return WheelInputs(
        wheel=None,
        version=request.version,
        pin=request.pin,
        commits=source.commits,
        addresses=source.addresses,
        patch_sha256=patch.sha256,
        options=request.options,
        client_sha256=patch.client,
        simulator=patch.simulator,
        lock_sha256=env.lock_file,
        toolchain=env.toolchain.data(),
        variables=env.variables,
        epoch=source.epoch,
        build_path=workspace.sandbox.path(request.source),
        isolation=Isolation(workspace.sandbox.reason, {}),
        accepted=request.accepted,
        without=request.without,
        client=origin.describe_home(request.options.switchml_home),
    )


def write(wheel: str, inputs: WheelInputs) -> str:
    """Write WHEEL.provenance.json, and return its path; equal inputs give equal bytes.

    Raises:
        FileError: the file cannot be written.
    """
    return statement.write(wheel, describe(inputs))


def describe(inputs: WheelInputs) -> Provenance:
    """Return the provenance of a wheel."""
    return Provenance(
        kind=KIND,
        subjects=(inputs.wheel,) if inputs.wheel else (),
        request=_request(inputs),
        resolved=_resolved(inputs),
        materials=tuple(_materials(inputs)),
    )


def _request(inputs: WheelInputs) -> dict[str, object]:
    listed = {"accepted": inputs.accepted, "without": inputs.without}
    return {
        "pin": {"name": inputs.pin.name, "commit": inputs.pin.commit},
        **origin.describe_options(inputs.options),
        "variables": dict(inputs.variables),
        **{name: list(values) for name, values in listed.items() if values},
    }


def _resolved(inputs: WheelInputs) -> dict[str, object]:
    """Return values that followed from the user's choices on this machine."""
    return {
        "version": inputs.version,
        "toolchain": dict(inputs.toolchain),
        "SOURCE_DATE_EPOCH": inputs.epoch,
        "buildPath": paths.printable(inputs.build_path),
        "isolation": {
            "namespaces": inputs.isolation.reason or "mount, network",
            "network": dict(inputs.isolation.network),
        },
        **inputs.client,
    }


def _materials(inputs: WheelInputs) -> list[dict[str, object]]:
    """Return the inputs of the wheel, as ResourceDescriptors."""
    found = [
        statement.describe_commit(paths.printable(path) or SOURCE, inputs.addresses[path], commit)
        for path, commit in sorted(inputs.commits.items())
    ]
    found.append(statement.describe_file(PATCH, inputs.patch_sha256))
    if inputs.client_sha256 is not None:
        client = statement.describe_file(CLIENT, inputs.client_sha256)
        found.append({**client, "annotations": {"simulator": inputs.simulator}})
    if inputs.lock_sha256 is not None:
        found.append(statement.describe_file(LOCK, inputs.lock_sha256))
    return found
