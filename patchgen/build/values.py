"""What each stage of a build makes of what the stages before it have made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.build.env.lockfile import Lock
    from patchgen.build.request import Request
    from patchgen.build.toolchain import Toolchain
    from patchgen.source import Source


@dataclass(frozen=True)
class Environment:
    """The interpreter and the programs that PyTorch is built with."""

    python: str
    lock: str | None
    """Identity of what the lock holds; None where the user named an interpreter."""
    lock_file: str | None
    """SHA-256 of conda-lock.yml, likewise."""
    toolchain: Toolchain
    variables: Mapping[str, str]
    """Of the build, as the provenance names them."""
    environ: Mapping[str, str]
    """All of the environment that setup.py sees, but for what the build itself sets."""


@dataclass(frozen=True)
class Patched:
    """The tree with the patch."""

    sha256: str
    """Of the patch."""
    new_files: tuple[str, ...]
    client: str | None
    """SHA-256 of the client library's archive; None where there is none."""
    simulator: bool
    """Whether the client library is the simulator."""


@dataclass(frozen=True)
class Configured:
    """What the objects that are there were begun with: digests."""

    toolchain: str
    variables: str
    version: str


@dataclass(frozen=True)
class Objects:
    """What is compiled, to the end."""

    inputs: str
    """Digest of all that it was made from."""


@dataclass(frozen=True)
class Wheel:
    """The wheel in WORK/wheel."""

    name: str
    sha256: str
    size: int
    """Bytes."""


@dataclass(frozen=True)
class Verified:
    """The wheel sums."""

    checks: tuple[str, ...]
    """What was found to hold."""


@dataclass(frozen=True)
class Made:
    """All that a build has made, of what was asked for."""

    request: Request
    lock: Lock | None
    """None where the user named an interpreter."""
    source: Source
    environment: Environment
    patched: Patched
    objects: Objects
    wheel: Wheel
    verified: Verified
