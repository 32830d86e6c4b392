"""Provenance of a wheel, beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchgen.core.library import origin
from patchgen.core.source.addresses import SOURCE
from patchgen.system import paths, statement
from patchgen.system.statement import Provenance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.core.patch.pins import Pin
    from patchgen.options import Options
    from patchgen.system.files import Artifact

KIND = "wheel"
PATCH = "switchml_pytorch.patch"
LOCK = "conda-lock.yml"
CLIENT = origin.ARCHIVE
SUFFIX = statement.SUFFIX


@dataclass(frozen=True)
class Isolation:
    """Isolation of a build from its machine."""

    reason: str
    """Reason of the system to give no namespaces; empty where it gave them."""
    network: Mapping[str, str]
    """Network that there was, by stage."""


@dataclass(frozen=True)
class WheelInputs:
    """Inputs that the bytes of a wheel depend on."""

    wheel: Artifact
    version: str
    pin: Pin
    commits: Mapping[str, str]
    """Commits of the source's repositories by path; the empty path is PyTorch itself."""
    addresses: Mapping[str, str]
    """Recorded URLs of the repositories by path."""
    patch_sha256: str
    options: Options
    client_sha256: str | None
    """SHA-256 of the client library's archive; None where it was not found."""
    simulator: bool
    """True where the client library is the simulator."""
    lock_sha256: str | None
    """SHA-256 of conda-lock.yml; None where the user named an interpreter."""
    toolchain: Mapping[str, object]
    """The interpreter, the compiler, cmake and ninja: paths and what they say of their version."""
    variables: Mapping[str, str]
    """Environment variables of the build."""
    epoch: int
    """SOURCE_DATE_EPOCH, in seconds since 1970."""
    build_path: str
    """The directory of the source, as the build saw it: it is in the objects."""
    isolation: Isolation
    accepted: tuple[str, ...] = ()
    """Missing things that the user accepted."""
    without: tuple[str, ...] = ()
    """Submodules that the source is to go without."""
    client: Mapping[str, object] = field(default_factory=dict)
    """Part of the client library, as `origin.describe_home` gives it."""


def write(wheel: str, inputs: WheelInputs) -> str:
    """Writes `<wheel>.provenance.json`; the same values give the same bytes.

    Args:
        wheel: the path of the wheel.
        inputs: what it was made from.

    Returns:
        The path of what was written.

    Raises:
        FileError: it cannot be written.
    """
    return statement.write(wheel, describe(inputs))


def describe(inputs: WheelInputs) -> Provenance:
    """Describes the wheel as any file that is made here."""
    return Provenance(
        kind=KIND,
        subjects=(inputs.wheel,),
        request=_request(inputs),
        resolved=_resolved(inputs),
        materials=tuple(_materials(inputs)),
    )


def _request(inputs: WheelInputs) -> dict[str, object]:
    """Choices of the user, as JSON."""
    listed = {"accepted": inputs.accepted, "without": inputs.without}
    return {
        "pin": {"name": inputs.pin.name, "commit": inputs.pin.commit},
        **origin.describe_options(inputs.options),
        "variables": dict(inputs.variables),
        **{name: list(values) for name, values in listed.items() if values},
    }


def _resolved(inputs: WheelInputs) -> dict[str, object]:
    """Values that followed from the choices on this machine."""
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
    """Inputs of the wheel, as ResourceDescriptors."""
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
