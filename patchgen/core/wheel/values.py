"""Results of a build's stages, each made from those before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from patchgen.core.source import Source
from patchgen.core.wheel.place import HOST
from patchgen.core.wheel.toolchain import Toolchain


@dataclass(frozen=True)
class Environment:
    """The interpreter and the programs that PyTorch is built with."""

    python: str
    """Path of the interpreter, as the build sees it."""
    lock: str | None
    """Identity of what the lock holds; None where the user named an interpreter."""
    lock_file: str | None
    """SHA-256 of conda-lock.yml; None where the user named an interpreter."""
    toolchain: Toolchain
    variables: Mapping[str, str]
    """Variables of the build, as the provenance names them."""
    environ: Mapping[str, str]
    """Environment that setup.py sees, but for what the build itself sets."""


@dataclass(frozen=True)
class Patched:
    """The tree with the patch."""

    sha256: str
    """SHA-256 of the patch."""
    new_files: tuple[str, ...]
    client: str | None
    """SHA-256 of the client library's archive; None where there is none."""
    simulator: bool
    """True where the client library is the simulator."""


@dataclass(frozen=True)
class Configured:
    """Digests of the inputs that the present objects were begun with."""

    toolchain: str
    variables: str
    version: str


@dataclass(frozen=True)
class Objects:
    """Compiled objects, complete."""

    inputs: str
    """Digest of all that it was made from."""
    network: str = HOST
    """Network that the compilers had."""


@dataclass(frozen=True)
class BuiltWheel:
    """The wheel in WORK/wheel."""

    name: str
    sha256: str
    size: int
    """Bytes."""
    network: str = HOST
    """Network that there was."""


@dataclass(frozen=True)
class Verified:
    """The wheel sums."""

    checks: tuple[str, ...]
    """Checks that passed."""
    network: str = HOST
    """Network that the ranks had."""


@dataclass(frozen=True)
class Built:
    """Results of all stages."""

    source: Source
    env: Environment
    patch: Patched
    objects: Objects
    wheel: BuiltWheel
    verified: Verified
