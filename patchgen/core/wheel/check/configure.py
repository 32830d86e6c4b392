"""Runs the patch's switchml.cmake in a scratch project, without PyTorch.

Its answers decide the rows about homes and libraries, so these agree with PyTorch's configuration.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from patchgen.core.wheel.request import BuildRequest
from patchgen.errors import ToolError
from patchgen.system import files, paths
from patchgen.system.native import cmake

_LIMIT = 600.0  # seconds: linking the whole of DPDK and gRPC takes a while
_NO_PKG_CONFIG = "no pkg-config on PATH; install pkg-config (Debian) or pkgconf-pkg-config (RHEL)"
_SYSTEM = "pthread", "dl"  # come with every compiler
_PROJECT = os.path.dirname(os.path.abspath(__file__))


@dataclass(frozen=True)
class Configuration:
    """Answers of switchml.cmake about the homes and flags of a build."""

    incomplete: tuple[str, ...] = ()
    """Variables of homes with missing paths."""
    archive: tuple[str, ...] = ()
    """Problems of the archive and advice, a line each."""
    modules: tuple[str, ...] = ()
    """Errors of pkg-config about gRPC, a line each."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of gRPC's modules by name."""
    linked: str | None = None
    """Output of compiler and linker if a program does not link with the archive."""
    named: str = ""
    """Output of the linker for the libraries' names alone; empty if all are found."""
    libraries: tuple[str, ...] = ()
    """Libraries that are linked by name, in the linker's order, without gRPC."""
    module: bool = False
    """Whether the client library's home lists the libraries to link with."""
    blas: tuple[str, ...] = ()
    """Libraries of BLAS; empty if not found, or not searched."""
    lapack: bool = False
    """Whether LAPACK is in these libraries, or beside them."""


def run(
    request: BuildRequest, program: str, options: Sequence[str], ask: Callable[..., str]
) -> Configuration | ToolError:
    """Run switchml.cmake, as `Facts.ask` runs programs; return an error where it has no answers.

    Raises:
        FileError: there is no space for a scratch directory.
    """
    source_dir = request.pin.source_dir
    with files.scratch("check") as directory:
        cmake.write_project(request.patch.added, directory)
        build = os.path.join(directory, "build")
        command = [program, "-S", _PROJECT, "-B", build, f"-DPATCH={directory}/{source_dir}"]
        failed = None
        try:
            ask([*command, *options], limit=_LIMIT, activated=True)
        except ToolError as error:
            failed = error  # switchml.cmake refused something, or cmake failed early
        try:
            with open(os.path.join(build, "answers"), "rb") as file:
                answers = parse(paths.decode(file.read()))
        except FileNotFoundError:
            answers = None
    return answers or failed or ToolError(f"{program}: gave no answers of switchml.cmake")


def parse(answers: str) -> Configuration | None:
    """Parse the answers of the project; None where the last one is missing.

    They are records of names with values, or of error codes with values and texts.
    """
    found: dict[str, list[list[str]]] = {}
    for record in answers.split("\x1e"):
        name, *values = record.split("\x1f")
        found.setdefault(name, []).append(values)
    if "LIBRARIES" not in found:
        return None
    refused = {name: [text for _, text in found.get(name, [])] for name in ("ARCHIVE", "LINKS")}
    modules = [line for value, _ in found.get("MODULES", []) for line in value.splitlines() if line]
    return Configuration(
        incomplete=tuple(
            home for home in ("SWITCHML_HOME", "DPDK_HOME", "GRPC_HOME") if home in found
        ),
        archive=tuple(line for text in refused["ARCHIVE"] for line in text.splitlines()),
        modules=(_NO_PKG_CONFIG,) if "PKG_CONFIG" in found else tuple(modules),
        versions=dict(text.split(" ", 1) for (text,) in found.get("VERSION", [])),
        linked="\n".join(refused["LINKS"]) or None,
        named="".join(text for (text,) in found.get("NAMES", [])),
        module=found.get("MODULE", [[""]]) != [[""]],
        blas=tuple(filter(None, found.get("BLAS", [[""]])[0][0].split(";"))),
        lapack=found.get("LAPACK") == [["TRUE"]],
        libraries=tuple(_names(found["LIBRARIES"][0][0], found["GRPC"][0][0])),
    )


def _names(libraries: str, grpc: str) -> Iterator[str]:
    apart = {*grpc.split(";"), *_SYSTEM}
    for word in libraries.split(";"):
        name = word.removeprefix("-l")
        if name and name not in apart and not name.startswith(("-", "/")):
            yield name
