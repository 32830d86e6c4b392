"""Stages of a build and their results, each made from earlier ones."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchgen.core.patch.patches import Patch
from patchgen.core.source import Source
from patchgen.core.wheel.request import BuildRequest
from patchgen.core.wheel.sandbox import HOST, Sandbox
from patchgen.core.wheel.toolchain import Toolchain


class Stage(enum.Enum):
    """Stages of a build, in order, by the names that users see."""

    LOCK = "lock"
    SOURCE = "source"
    ENV = "env"
    PATCH = "patch"
    COMPILE = "compile"
    WHEEL = "wheel"
    VERIFY = "verify"


@dataclass(frozen=True)
class BuildEnvironment:
    """Interpreter and programs with which PyTorch is built."""

    python: str
    """Path of the interpreter, as the build sees it."""
    lock: str | None
    """Identity of the lock's packages; None where the user named an interpreter."""
    lock_file: str | None
    """SHA-256 of conda-lock.yml; None where the user named an interpreter."""
    toolchain: Toolchain
    variables: Mapping[str, str]
    """Variables of the build, for the provenance."""
    environ: Mapping[str, str]
    """Variables of setup.py's process, without the variables that the build sets itself."""


@dataclass(frozen=True)
class Patched:
    """The patch in the tree, and the client library."""

    patch: Patch
    client: Sequence[Mapping[str, object]] = ()
    """Files of the client library, as ResourceDescriptors; empty if it is missing."""


@dataclass(frozen=True)
class WheelInputs:
    """Everything that the bytes of a wheel depend on."""

    request: BuildRequest
    sandbox: Sandbox
    source: Source
    env: BuildEnvironment
    patched: Patched


@dataclass(frozen=True)
class Configured:
    """Digests of the inputs with which the present objects were configured."""

    toolchain: str
    variables: str
    version: str


@dataclass(frozen=True)
class Objects:
    """Compiled objects, all of them."""

    inputs: str
    """Digest of all inputs."""
    network: str = HOST
    """Network access of the compilers: none but loopback, or the host's."""


@dataclass(frozen=True)
class BuiltWheel:
    """The wheel in WORK/wheel."""

    name: str
    sha256: str
    size: int
    network: str = HOST
    """Network access while it was packed: none but loopback, or the host's."""


@dataclass(frozen=True)
class Verified:
    """Result of the wheel's verification."""

    checks: tuple[str, ...]
    """Names of the checks that passed."""
    network: str = HOST
    """Network access of the ranks: none but loopback, or the host's."""


@dataclass(frozen=True)
class Built:
    """Results of all stages."""

    inputs: WheelInputs
    objects: Objects
    wheel: BuiltWheel
    verified: Verified
