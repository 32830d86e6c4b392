"""Recorded values that a rebuild needs to be the same here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Callable

from patchgen.core.library import homes, origin
from patchgen.core.wheel.rebuild.means import Means
from patchgen.core.wheel.rebuild.original import Original
from patchgen.errors import CheckError, PatchgenError, file_errors
from patchgen.system import files, paths, statement
from patchgen.system.checks import Check
from patchgen.system.native import tools


@dataclass(frozen=True)
class Need:
    """Recorded values, and how to find them here."""

    name: str
    recorded: Mapping[str, str]
    find: Callable[[], Mapping[str, object]]
    """Find the values here; raise a PatchgenError if nothing can be made without them."""


@dataclass(frozen=True)
class Rebuildable:
    """Files that can be made again from their record."""

    needs: tuple[Need, ...]
    build: Callable[[str, str], str]
    """Make the files in a new directory, and return the path of the main file.

    The second argument is a cache without compiled files.
    """


Reader = Callable[["Original", "Means"], Rebuildable]
"""Function from a record of one kind to what that kind's command can make."""


def find_lacks(needs: Iterable[Need]) -> Iterator[Check]:
    """Yield the needs that are missing, which are required, or differ, which are not.

    One without which nothing can be made is required.
    """
    for need in needs:
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


def list_common(original: Original) -> tuple[Need, ...]:
    """Return the needs of every kind: the original files and this tool."""

    def find_files() -> Mapping[str, str]:
        with file_errors():
            there = {
                name: path for name, path in original.list_files().items() if os.path.isfile(path)
            }
            return {name: files.sha256(path) for name, path in there.items()}

    builder = original.pairs("builder")
    return (
        Need("files", original.digests, find_files),
        Need("built with", builder, statement.describe_builder),
    )


def need_compiler(original: Original, environ: Mapping[str, str]) -> Need:
    """Return the need of the compiler and its tools."""

    def find() -> Mapping[str, str]:
        found: Any = tools.describe_tools(environ)["programs"]
        return dict(found)

    return Need("compiler", original.pairs("resolved.toolchain.programs"), find)


def need_pin(original: Original, means: Means) -> Need:
    """Return the need of a pin for PyTorch's commit."""
    recorded = {"commit": original.text("request.pin.commit")}
    return Need("pin", recorded, lambda: {"commit": means.find_pin(recorded["commit"]).commit})


def need_library(original: Original, means: Means) -> Need:
    """Return the need of the client library: at its path, or rebuilt."""
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
        if not means.place.fixed:
            raise CheckError(
                f"can be made again, but not shown there: no namespaces: {means.place.reason}\n"
                f"rebuild the library alone, and install it in {shown}"
            )
        return {origin.ARCHIVE: "none; it will be made again and shown there"}

    return Need("client library", {origin.ARCHIVE: wanted}, find)


def is_there(home: str, archive: str) -> bool:
    """Return whether a SWITCHML_HOME has an archive with this SHA-256."""
    path = os.path.join(home, homes.ARCHIVE)
    with file_errors():
        return os.path.isfile(path) and files.sha256(path) == archive
