"""Provenance of a wheel, beside it: an in-toto Statement with SLSA provenance.

Formats: in-toto Attestation Framework, Statement v1 and ResourceDescriptor; SLSA Build Provenance
v1. It is not signed: whoever publishes the wheel does that.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen import __version__
from patchgen.client import library
from patchgen.errors import file_errors
from patchgen.options import HOMES, VARIABLES
from patchgen.system import files, paths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.options import Options
    from patchgen.patch.pins import Pin
    from patchgen.system.files import Artifact

SUFFIX = ".provenance.json"
PATCH = "switchml_pytorch.patch"
CLIENT = os.path.basename(library.ARCHIVE)
_STATEMENT = "https://in-toto.io/Statement/v1"
_PREDICATE = "https://slsa.dev/provenance/v1"
_BUILD_TYPE = "urn:switchml-patch:wheel:v1"
_BUILDER = "urn:switchml-patch"


@dataclass(frozen=True)
class Isolation:
    """Isolation of a build from its machine."""

    reason: str
    """Reason of the system to give no namespaces; empty where it gave them."""
    network: Mapping[str, str]
    """Network that there was, by stage."""


@dataclass(frozen=True)
class Provenance:
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


def write(wheel: str, provenance: Provenance) -> str:
    """Writes `<wheel>.provenance.json`; the same values give the same bytes.

    Args:
        wheel: the path of the wheel.
        provenance: its provenance.

    Returns:
        The path of what was written.

    Raises:
        FileError: it cannot be written.
    """
    path = wheel + SUFFIX
    with file_errors():
        files.replace(os.fsencode(path), _text(provenance).encode())
    return path


def written(wheel: str, provenance: Provenance) -> bool:
    """True where `write` has written these very values already.

    Raises:
        FileError: the file cannot be read.
    """
    with file_errors(), contextlib.suppress(FileNotFoundError), open(wheel + SUFFIX, "rb") as file:
        return file.read() == _text(provenance).encode()
    return False


def _text(provenance: Provenance) -> str:
    return json.dumps(statement(provenance), indent=2, sort_keys=True) + "\n"


def statement(provenance: Provenance) -> dict[str, object]:
    """The in-toto Statement about the wheel."""
    wheel = provenance.wheel
    return {
        "_type": _STATEMENT,
        "subject": [{**_file(wheel.name, wheel.sha256), "annotations": {"size": wheel.size}}],
        "predicateType": _PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD_TYPE,
                "externalParameters": describe_request(provenance),
                "internalParameters": _resolved(provenance),
                "resolvedDependencies": _materials(provenance),
            },
            "runDetails": {
                "builder": {
                    "id": _BUILDER,
                    "version": {"switchml-patch": __version__, "zlib": zlib.ZLIB_RUNTIME_VERSION},
                },
            },
        },
    }


def describe_request(provenance: Provenance) -> dict[str, object]:
    """Choices of the user, as JSON."""
    options = provenance.options
    return {
        "pin": {"name": provenance.pin.name, "commit": provenance.pin.commit},
        "flags": list(options.flags),
        "homes": {
            variable.name: paths.printable(getattr(options, variable.field))
            for variable in VARIABLES
            if variable.field in HOMES and getattr(options, variable.field)
        },
        "variables": dict(provenance.variables),
        **({"accepted": list(provenance.accepted)} if provenance.accepted else {}),
    }


def _resolved(provenance: Provenance) -> dict[str, object]:
    """Values that followed from the choices on this machine."""
    return {
        "version": provenance.version,
        "toolchain": dict(provenance.toolchain),
        "SOURCE_DATE_EPOCH": provenance.epoch,
        "buildPath": paths.printable(provenance.build_path),
        "isolation": {
            "namespaces": provenance.isolation.reason or "mount, network",
            "network": dict(provenance.isolation.network),
        },
    }


def _materials(provenance: Provenance) -> list[dict[str, object]]:
    """Inputs of the wheel, as ResourceDescriptors."""
    found: list[dict[str, object]] = [
        {
            "name": paths.printable(path) or "pytorch",
            "uri": f"git+{provenance.addresses[path]}@{commit}",
            "digest": {"gitCommit": commit},
        }
        for path, commit in sorted(provenance.commits.items())
    ]
    found.append(_file(PATCH, provenance.patch_sha256))
    if provenance.client_sha256 is not None:
        client = _file(CLIENT, provenance.client_sha256)
        found.append({**client, "annotations": {"simulator": provenance.simulator}})
    if provenance.lock_sha256 is not None:
        found.append(_file("conda-lock.yml", provenance.lock_sha256))
    return found


def _file(name: str, sha256: str) -> dict[str, object]:
    return {"name": name, "digest": {"sha256": sha256}}
