"""Rebuild: makes files again from their provenance alone, and compares the bytes."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace

from patchgen.core.library import homes, origin
from patchgen.core.wheel import compare, sandbox
from patchgen.core.wheel.compare import Aspect, Difference
from patchgen.core.wheel.rebuild import requirements
from patchgen.core.wheel.rebuild.recorded import LIBRARIES, RecordedBuild, find
from patchgen.core.wheel.rebuild.request import RebuildRequest
from patchgen.core.wheel.rebuild.requirements import Kinds
from patchgen.errors import OptionsError, file_errors
from patchgen.system import files, outputs, statement
from patchgen.system.checks import Check
from patchgen.system.native import cache as caches
from patchgen.system.statement import Provenance

__all__ = ["Kinds", "RebuildRequest", "RecordedBuild", "check_output", "find", "find_missing"]

ATTESTATION = ".reproduced.json"
_PREDICATE = f"{statement.BUILDER}:reproduced:v1"
_CLIENT = "client library: "


@dataclass(frozen=True)
class Rebuilt:
    """Rebuilt files, compared with the original ones."""

    made: str
    """Path of the rebuilt main file."""
    attestation: str | None
    """Path of the attestation; None where something differs."""
    differences: tuple[Difference, ...] = ()
    """Differences from the original files; empty for identical bytes."""


def find_missing(original: RecordedBuild, kinds: Kinds, request: RebuildRequest) -> list[Check]:
    """Return what differs here from the record, beginning with the client library.

    Raises:
        OptionsError: the record has an unusable value.
        FileError: a file cannot be read.
    """
    made, client = kinds[original.provenance.kind](original, request), original.client()
    requires = [*requirements.list_common(original), *made.requires]
    if client is not None:
        nested = kinds[client.provenance.kind](client, request).requires
        requires = [*(replace(one, name=_CLIENT + one.name) for one in nested), *requires]
    return [*requirements.find_missing(requires)]


def rebuild(original: RecordedBuild, kinds: Kinds, request: RebuildRequest, output: str) -> Rebuilt:
    """Rebuild the files, compare them, and write them with an attestation.

    A missing client library is rebuilt too, and mounted at its path for the rest of this process.

    Raises:
        PatchgenError: the rebuild failed; the exit code is that of the original command.
        FileError: the file system refused.
    """
    read = kinds[original.provenance.kind](original, request)
    with outputs.directory(request.work), files.scratch("rebuild", request.work) as scratch:
        directory, cache = os.path.join(scratch, "made"), os.path.join(scratch, "cache")
        with file_errors():
            os.mkdir(directory)
            _link_sources(request.cache, cache)
        differences = _make_client(original, kinds, request, scratch)
        product = read.build(directory, cache)
        again = statement.read(product + statement.SUFFIX)
        differences += _compare(original, product)
        main = os.path.join(output, os.path.relpath(product, directory))
        with file_errors(), contextlib.suppress(FileNotFoundError):
            os.unlink(main + ATTESTATION)  # left by an earlier rebuild
        _deliver(directory, output)
    if differences:
        return Rebuilt(main, None, tuple(differences))
    with file_errors():
        described = _attest(original, again, original.list_files(main))
        files.replace(os.fsencode(main + ATTESTATION), statement.dump(described))
    return Rebuilt(main, main + ATTESTATION)


def check_output(original: RecordedBuild, output: str) -> None:
    """Refuse an output directory where the rebuilt files would replace the original ones.

    Raises:
        OptionsError: it is such a directory.
    """
    home = original.provenance.kind in LIBRARIES
    main = os.path.join(output, homes.ARCHIVE if home else os.path.basename(original.path))
    written = {os.path.realpath(path) for path in (main, main + statement.SUFFIX)}
    if not written.isdisjoint(map(os.path.realpath, (original.path, original.source))):
        raise OptionsError(f"-o {output}: has the files themselves; give another directory")


def _link_sources(cache: str, fresh: str) -> None:
    """Make a cache that links to the sources of another one, without compiled files."""
    os.mkdir(fresh)
    there = os.listdir(cache) if os.path.isdir(cache) else []
    for name in {*there} - {caches.COMPILED}:
        os.symlink(os.path.join(cache, name), os.path.join(fresh, name))


def _make_client(
    original: RecordedBuild, kinds: Kinds, request: RebuildRequest, scratch: str
) -> list[Difference]:
    """Rebuild the recorded client library; mount it at its path if it is missing there.

    Returns:
        Its differences from the library that was linked.
    """
    client = original.client()
    if client is None:
        return []
    directory = os.path.join(scratch, "client")
    main = kinds[client.provenance.kind](client, request).build(directory, request.cache)
    home = os.path.dirname(os.path.dirname(client.path))
    wanted = original.provenance.find_digest(origin.ARCHIVE) or ""
    if requirements.is_there(home, wanted):
        found = compare.compare_files(client.list_files(), client.list_files(main))
        return [replace(one, path=_CLIENT + one.path) for one in found]
    with file_errors():
        digest = files.sha256(main)
    sandbox.show_at(directory, home)
    if digest == wanted:
        return []
    return [Difference(_CLIENT + homes.ARCHIVE, Aspect.CONTENTS, wanted, digest)]


def _compare(original: RecordedBuild, product: str) -> list[Difference]:
    with contextlib.suppress(OptionsError):  # no archive, or damaged
        return compare.compare(original.path, product)
    return compare.compare_files(original.list_files(), original.list_files(product))


def _deliver(made: str, output: str) -> None:
    """Copy the rebuilt files, each atomically."""
    with outputs.directory(output):
        for directory, _, names in os.walk(made):
            for name in names:
                source = os.path.join(directory, name)
                target = os.path.join(output, os.path.relpath(source, made))
                with file_errors():
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(source, "rb") as file, files.replacing(target) as copy:
                    shutil.copyfileobj(file, copy)


def _attest(
    original: RecordedBuild, again: Provenance, rebuilt: Mapping[str, str]
) -> dict[str, object]:
    """Return an in-toto Statement about files that were rebuilt with the same bytes.

    Whoever rebuilds has to sign it.
    """
    made = [statement.describe_file(name, files.sha256(path)) for name, path in rebuilt.items()]
    source = files.sha256(original.source)
    return {
        "_type": statement.TYPE,
        "subject": made,  # the files that were compared, not those now at their paths
        "predicateType": _PREDICATE,
        "predicate": {
            "result": "reproduced",
            "rebuilt": made,
            "provenance": statement.describe_file(os.path.basename(original.source), source),
            "builder": {"id": statement.BUILDER, "version": dict(again.builder)},
            "toolchain": again.resolved["toolchain"],
        },
    }
