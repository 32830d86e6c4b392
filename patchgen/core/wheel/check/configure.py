"""The switchml.cmake of the patch, run in a scratch project before there is a PyTorch to run it in.

Its answers decide the rows about the homes and the libraries, so that these cannot differ from the
configuration of the build.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchgen.core.patch import render
from patchgen.errors import ToolError
from patchgen.system import paths
from patchgen.system.native import cmake

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from patchgen.core.patch.pins import Pin
    from patchgen.core.wheel.check.tools import Tools
    from patchgen.options import Options

BLAS = "blas"  # in the limits of a release that needs it
_LIMIT = 600.0  # seconds: linking the whole of DPDK and gRPC takes a while
_OURS = "SwitchML: "
_MODULES = f"{_OURS}pkg-config refuses gRPC:\n"
_LINKS = f"{_OURS}a program that uses "
_MISSING = re.compile(rf"{_OURS}there is no (.*?)\n.*-D(\w+)=DIR", re.DOTALL)
_NO_PKG_CONFIG = "no pkg-config on PATH; install pkg-config (Debian) or pkgconf-pkg-config (RHEL)"
_REFUSED = "FATAL_ERROR", "SEND_ERROR"
_SYSTEM = "pthread", "dl"  # come with every compiler


@dataclass(frozen=True)
class Configuration:
    """Answers of switchml.cmake about the homes and flags of a build."""

    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Paths that are not there, by the variable of their home."""
    archive: tuple[str, ...] = ()
    """Faults of the archive, and what to do about them, a line each."""
    modules: tuple[str, ...] = ()
    """Reasons of pkg-config to refuse gRPC, a line each."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of gRPC's modules by name."""
    linked: str | None = None
    """Output of the compiler and the linker where nothing links with the archive."""
    named: str = ""
    """Output of the linker about the libraries' names alone; empty where all were found."""
    libraries: tuple[str, ...] = ()
    """Libraries that are linked by name, in the order of the linker, but for gRPC."""
    module: bool = False
    """True where the home of the client library names what it links with."""
    blas: tuple[str, ...] = ()
    """Libraries of BLAS; empty where there are none, or they were not looked for."""
    lapack: bool = False
    """True where LAPACK is in these, or beside them."""


def run(options: Options, pin: Pin, tools: Tools, directory: str) -> Configuration | None:
    """Runs switchml.cmake with the compiler of the build, or without one where there is none yet.

    Args:
        options: the flags and homes.
        pin: the release that the patch is for.
        tools: cmake and the compiler.
        directory: an empty directory for the project.

    Returns:
        The answers; None where there is no cmake.

    Raises:
        ToolError: cmake failed before the end of the project.
        FileError: the directory cannot be written.
    """
    program = tools.cmake
    if program is None:
        return None
    blas = tools.environment is None and BLAS in tools.limits.specifiers
    project = {
        "CMakeLists.txt": render.text("check/CMakeLists.txt", blas=blas).encode(),
        "blas.cmake": render.text("check/blas.cmake").encode(),
        "SwitchMLAllreduce.cpp": b"",
        "switchml.cmake": render.flags_file(options, pin),
    }
    cmake.write_project(project, directory)
    build = os.path.join(directory, "build")
    command = [program, "-S", directory, "-B", build, *_generator(program, tools)]
    failed = None
    try:
        tools.ask(command, limit=_LIMIT, activated=True)
    except ToolError as error:
        failed = error  # it objects, or it did not come to the end
    try:
        with open(os.path.join(build, "messages"), "rb") as file:
            answers = parse(paths.decode(file.read()))
    except FileNotFoundError:
        answers = None
    if answers is None:
        raise failed or ToolError(f"{program}: gave no answers of switchml.cmake")
    return answers


def _generator(program: str, tools: Tools) -> list[str]:
    if not tools.has_compiler:  # nothing is compiled, so any program will do to compile with
        return ["-G", "Unix Makefiles", f"-DCMAKE_MAKE_PROGRAM={program}"]
    ninja = ["-G", "Ninja"] if tools.ninja else []
    return [*ninja, "-DCOMPILER=ON", *tools.definitions]


def parse(messages: str) -> Configuration | None:
    """Reads the messages of the project; None where the last is missing.

    Args:
        messages: the file that the project writes, each message with its mode.
    """
    found: dict[str, list[str]] = {}
    for record in messages.split("\x1e"):
        mode, _, text = record.partition("\x1f")
        found.setdefault(mode, []).append(text)
    if "LIBRARIES" not in found:
        return None
    refused = [text for mode in _REFUSED for text in found.get(mode, [])]
    missing: dict[str, tuple[str, ...]] = {}
    archive: list[str] = []
    modules: list[str] = []
    linked = None
    for text in refused:
        gone = _MISSING.match(text)
        if gone:
            missing[gone[2]] = (*missing.get(gone[2], ()), gone[1])
        elif text.startswith(_LINKS):
            linked = text
        elif text.startswith(_MODULES):
            modules += text.removeprefix(_MODULES).splitlines()
        elif text.startswith(_OURS):
            archive += text.removeprefix(_OURS).splitlines()
    if any("PkgConfig" in text for text in refused):
        modules = [_NO_PKG_CONFIG]
    return Configuration(
        missing=missing,
        archive=tuple(archive),
        modules=tuple(filter(None, modules)),
        versions=dict(text.split(" ", 1) for text in found.get("VERSION", [])),
        linked=linked,
        named="".join(found.get("NAMES", [])),
        module=bool("".join(found.get("MODULE", []))),
        blas=tuple(filter(None, found.get("BLAS", [""])[0].split(";"))),
        lapack=found.get("LAPACK") == ["TRUE"],
        libraries=tuple(_names(found["LIBRARIES"][0], found["GRPC"][0])),
    )


def _names(libraries: str, grpc: str) -> Iterator[str]:
    apart = {*grpc.split(";"), *_SYSTEM}
    for word in libraries.split(";"):
        name = word.removeprefix("-l")
        if name and name not in apart and not name.startswith(("-", "/")):
            yield name
