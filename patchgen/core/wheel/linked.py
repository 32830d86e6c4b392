"""Contents of a wheel and its shared libraries, read from the build and the wheel."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.errors import TreeError
from patchgen.system import files, paths
from patchgen.system.process import LIMIT, Program, capture, stream
from patchgen.system.wheel import reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_RELEASE = "/etc/os-release"
_QUERY = "${binary:Package}\\t${Package}\\t${Version}\\t${Architecture}\\n"
# Built by make, in a directory of CMake's build: the records of ninja do not have its files.
_BY_MAKE = {"nccl": "third_party/nccl"}
# The file, in a line of ldd: of one that is looked for, and of the dynamic linker itself.
_FOUND = re.compile(r"\s+(?:(\S+) => )?(/.*) \(0x[0-9a-f]+\)")


@dataclass(frozen=True)
class DebianPackage:
    """A package of dpkg; `distribution` is what /etc/os-release has as ID."""

    name: str
    version: str
    architecture: str
    distribution: str


@dataclass(frozen=True)
class Library:
    """A shared object that files of the wheel need, and that is not in it."""

    name: str
    """Name that the dynamic linker looks for."""
    conda: str | None = None
    """The package of the conda environment that has it."""
    debian: DebianPackage | None = None
    """The system's package that has it."""


@dataclass(frozen=True)
class Linked:
    """The parts of a wheel, and what has to be there beside it."""

    repositories: frozenset[str] | None
    """Paths of those whose files were compiled; None where ninja has no record of that."""
    libraries: tuple[Library, ...]


def repositories(
    source: str, known: Iterable[str], environ: Mapping[str, str]
) -> frozenset[str] | None:
    """The repositories of a source whose files were compiled, headers too.

    Args:
        source: the tree of PyTorch, built with ninja in its directory build/.
        known: paths of the repositories; the empty path is PyTorch itself.
        environ: of the build, for its PATH.

    Returns:
        Their paths; None where the build has no record that says so.

    Raises:
        ToolError: ninja cannot be started.
    """
    ninja = shutil.which("ninja", path=environ.get("PATH"))
    build = os.path.join(source, "build")
    if ninja is None or not os.path.exists(os.path.join(build, ".ninja_deps")):
        return None
    directories: set[bytes] = set()

    def read(_: str, line: bytes) -> None:
        if line.startswith(b"    "):
            directories.add(os.path.dirname(line.strip()))

    program = Program([ninja, "-t", "deps"], cwd=build, env=environ)
    if stream(program, read, limit=None) != 0:
        return None
    places = frozenset(known)
    found = {_repository(os.path.join(build, os.fsdecode(one)), source, places)
             for one in directories}  # fmt: skip
    for directory, place in _BY_MAKE.items():
        if os.path.isdir(os.path.join(build, directory)):
            found.update(one for one in places if f"{one}/".startswith(f"{place}/"))
    return frozenset(one for one in found if one is not None) | {""}


def libraries(wheel: str, prefix: str | None, environ: Mapping[str, str]) -> tuple[Library, ...]:
    """The shared objects that a wheel needs and does not have, by name.

    Args:
        wheel: its path.
        prefix: of the conda environment that it was built in.
        environ: of the build, for its PATH and LD_LIBRARY_PATH.

    Raises:
        TreeError: the wheel is damaged.
        FileError: there is no room to unpack its shared objects.
    """
    with files.scratch("linked") as directory:
        objects = _unpack(wheel, directory)
        needed = {name for path in objects for name in _needed(path)}
        needed -= {os.path.basename(path) for path in objects}
        found = _resolved(objects, environ)
    conda = _conda(prefix, needed) if prefix else {}
    others = {name: found[name] for name in needed - conda.keys() if name in found}
    debian = _debian(others, environ)
    return tuple(Library(name, conda.get(name), debian.get(name)) for name in sorted(needed))


def _repository(directory: str, source: str, known: frozenset[str]) -> str | None:
    """The innermost repository that a directory is in; None: it is not of the source."""
    inside = os.path.relpath(directory, source)
    if inside == ".." or inside.startswith("../") or inside.split("/")[0] == "build":
        return None
    while inside and paths.from_native(inside) not in known:
        inside = os.path.dirname(inside)
    return paths.from_native(inside)


def _unpack(wheel: str, directory: str) -> list[str]:
    """The wheel's ELF files, each where it lies beside the others."""
    found = []
    with reading(wheel, TreeError) as opened:
        for name in opened.names:
            if ".so" not in os.path.basename(name) and not opened.executable(name):
                continue
            path = os.path.join(directory, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb+") as file:
                opened.copy(name, file)
                file.seek(0)
                if file.read(4) == b"\x7fELF":
                    found.append(path)
    return found


def _needed(path: str) -> list[str]:
    from elftools.common.exceptions import ELFError
    from elftools.elf.dynamic import DynamicSegment
    from elftools.elf.elffile import ELFFile

    with open(path, "rb") as file, contextlib.suppress(ELFError):
        return [
            tag.needed
            for segment in ELFFile(file).iter_segments()
            if isinstance(segment, DynamicSegment)
            for tag in segment.iter_tags("DT_NEEDED")
        ]
    return []


def _resolved(objects: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Paths where the dynamic linker finds shared objects, by name."""
    ldd = shutil.which("ldd", path=environ.get("PATH"))
    if ldd is None or not objects:
        return {}
    # Its return code tells of files that are no programs, too.
    said = capture(Program([ldd, *objects], env=environ), limit=LIMIT).out
    found = (_FOUND.fullmatch(line) for line in os.fsdecode(said).splitlines())
    return {one[1] or os.path.basename(one[2]): one[2] for one in found if one}


def _conda(prefix: str, needed: Iterable[str]) -> dict[str, str]:
    """The packages of a conda environment that have shared objects, by their names."""
    there = {name for name in needed if os.path.exists(os.path.join(prefix, "lib", name))}
    owners: dict[str, str] = {}
    for path in glob.glob(os.path.join(glob.escape(prefix), "conda-meta", "*.json")):
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        held = {f"lib/{name}" for name in there}.intersection(record.get("files", ()))
        owners.update({os.path.basename(name): record["name"] for name in held})
    return owners


def _debian(found: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, DebianPackage]:
    """The packages of dpkg that have shared objects, by their names; none where there is none."""
    dpkg = shutil.which("dpkg-query", path=environ.get("PATH"))
    if dpkg is None or not found:
        return {}
    aliases = {name: _aliases(path) for name, path in found.items()}
    asked = sorted({alias for some in aliases.values() for alias in some})
    owners: dict[str, str] = {}
    for line in _read_lines([dpkg, "--search", *asked], environ):
        some, separator, path = line.partition(": ")
        if separator and path in asked:
            owners[path] = some.partition(",")[0]
    packages, distribution = {}, _distribution()
    names = sorted({*owners.values()})
    for line in _read_lines([dpkg, "--show", f"--showformat={_QUERY}", *names], environ):
        full, name, version, architecture = line.split("\t")
        packages[full] = DebianPackage(name, version, architecture, distribution)
        packages.setdefault(name, packages[full])
    owned = {
        name: packages.get(owners[alias])
        for name, some in aliases.items()
        for alias in some
        if alias in owners
    }
    return {name: package for name, package in owned.items() if package is not None}


def _distribution() -> str:
    try:
        with open(_RELEASE, encoding="utf-8") as file:
            found = re.search(r'^ID="?([\w.-]+)', file.read(), re.MULTILINE)
    except OSError:
        return "debian"
    return found[1] if found else "debian"


def _aliases(path: str) -> list[str]:
    """A path as dpkg may know it: before /lib became a link to /usr/lib, and after that."""
    found = {path, os.path.realpath(path)}
    found |= {one[len("/usr") :] for one in found if one.startswith("/usr/")}
    return sorted(found | {f"/usr{one}" for one in found if one.startswith("/lib")})


def _read_lines(command: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The lines that dpkg writes, whose return code tells of what it does not know, too."""
    ended = capture(Program(command, env={**environ, "LC_ALL": "C"}), limit=LIMIT)
    return ended.out.decode(errors="replace").splitlines()
