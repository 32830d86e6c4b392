"""Recorded values that a rebuild requires to be the same here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Callable

from patchgen.core.library import homes, origin
from patchgen.core.wheel.rebuild.recorded import RecordedBuild
from patchgen.core.wheel.rebuild.request import RebuildRequest
from patchgen.errors import CheckError, PatchgenError, file_errors
from patchgen.system import files, paths, statement
from patchgen.system.checks import Check
from patchgen.system.native import tools


@dataclass(frozen=True)
class Requirement:
    """Recorded values, and how to find them here."""

    name: str
    recorded: Mapping[str, str]
    find: Callable[[], Mapping[str, object]]
    """Find the values here; raise a PatchgenError if nothing can be made without them."""


@dataclass(frozen=True)
class Rebuildable:
    """Files that can be made again from their record."""

    requires: tuple[Requirement, ...]
    build: Callable[[str, str], str]
    """Make the files in a new directory, and return the path of the main file.

    The second argument is a cache without compiled files.
    """


Kinds = Mapping[str, Callable[[RecordedBuild, RebuildRequest], Rebuildable]]
"""Readers of provenance, by the kind of what was built."""


def find_missing(requirements: Iterable[Requirement]) -> Iterator[Check]:
    """Yield the requirements that are missing or differ here.

    Only those are required without which nothing can be made.
    """
    for need in requirements:
        try:
            here = need.find()
        except PatchgenError as error:
            yield Check(need.name, tuple(str(error).splitlines()))
            continue
        problems = tuple(
            f"{name}: was {value}, here {here.get(name, 'none')}"
            for name, value in need.recorded.items()
            if here.get(name) != value
        )
        if problems:
            yield Check(need.name, problems, required=False)


def list_common(original: RecordedBuild) -> tuple[Requirement, ...]:
    """Return the requirements of every kind: the original files and this tool."""

    def find_files() -> Mapping[str, str]:
        with file_errors():
            there = {
                name: path for name, path in original.list_files().items() if os.path.isfile(path)
            }
            return {name: files.sha256(path) for name, path in there.items()}

    builder = original.pairs("builder")
    return (
        Requirement("files", original.digests, find_files),
        Requirement("built with", builder, statement.describe_builder),
    )


def compiler(original: RecordedBuild, environ: Mapping[str, str]) -> Requirement:
    """Return the requirement of the compiler and its tools."""

    def find() -> Mapping[str, str]:
        found: Any = tools.describe_tools(environ)["programs"]
        return dict(found)

    return Requirement("compiler", original.pairs("resolved.toolchain.programs"), find)


def pin(original: RecordedBuild, request: RebuildRequest) -> Requirement:
    """Return the requirement of a pin for PyTorch's commit."""
    recorded = {"commit": original.text("request.pin.commit")}
    return Requirement(
        "pin", recorded, lambda: {"commit": request.find_pin(recorded["commit"]).commit}
    )


def library(original: RecordedBuild, request: RebuildRequest) -> Requirement:
    """Return the requirement of the client library: at its path, or rebuilt."""
    home = paths.native(original.text("request.homes.SWITCHML_HOME"))
    client, shown = original.client(), paths.describe(home)
    wanted = original.provenance.find_digest(origin.ARCHIVE) or ""

    def find() -> Mapping[str, str]:
        if is_there(home, wanted):
            return {origin.ARCHIVE: wanted}
        if client is None:
            raise CheckError(
                f"not there, and no provenance names its origin; put it into {shown} again"
            )
        if not os.path.isdir(home):
            raise CheckError(
                f"will be made again, and shown there: make an empty directory {shown}"
            )
        if not request.sandbox.isolated:
            raise CheckError(
                f"can be made again, but not shown there: no namespaces: {request.sandbox.reason}\n"
                f"rebuild the library alone, and install it in {shown}"
            )
        return {origin.ARCHIVE: "none; it will be made again and shown there"}

    return Requirement("client library", {origin.ARCHIVE: wanted}, find)


def is_there(home: str, archive: str) -> bool:
    """Return whether a SWITCHML_HOME has an archive with this SHA-256."""
    path = os.path.join(home, homes.ARCHIVE)
    with file_errors():
        return os.path.isfile(path) and files.sha256(path) == archive
