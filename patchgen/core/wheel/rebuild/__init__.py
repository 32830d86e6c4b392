"""Rebuild: makes files again from their provenance alone, and compares the bytes."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace

from patchgen.core.library import homes, origin
from patchgen.core.wheel import compare, place
from patchgen.core.wheel.compare import Aspect, Difference
from patchgen.core.wheel.rebuild import needs
from patchgen.core.wheel.rebuild.means import Means
from patchgen.core.wheel.rebuild.needs import Reader
from patchgen.core.wheel.rebuild.original import LIBRARIES, Original, find
from patchgen.errors import OptionsError, file_errors
from patchgen.system import files, outputs, statement
from patchgen.system.checks import Check
from patchgen.system.native import cache as caches
from patchgen.system.statement import Provenance

__all__ = ["Means", "Original", "Reader", "check_output", "find", "find_lacks", "rebuild"]

ATTESTATION = ".reproduced.json"
_PREDICATE = f"{statement.BUILDER}:reproduced:v1"
_CLIENT = "client library: "


@dataclass(frozen=True)
class Rebuilt:
    """Files that were made again, compared with those before."""

    made: str
    """Path of the main file that was made again."""
    attestation: str | None
    """Path of the attestation; None where something differs."""
    differences: tuple[Difference, ...] = ()
    """Differences from the files before; none where the bytes are identical."""


def find_lacks(original: Original, kinds: Mapping[str, Reader], means: Means) -> list[Check]:
    """Finds what of the record is not here as it was, first of the client library.

    Raises:
        OptionsError: the record has a value that cannot be used.
        FileError: something cannot be read.
    """
    made, client = kinds[original.provenance.kind](original, means), original.client()
    found = []
    if client is not None:
        nested = kinds[client.provenance.kind](client, means)
        found = [replace(one, name=_CLIENT + one.name) for one in needs.find_lacks(nested.needs)]
    return [*found, *needs.find_lacks((*needs.list_common(original), *made.needs))]


def rebuild(original: Original, kinds: Mapping[str, Reader], means: Means, output: str) -> Rebuilt:
    """Makes the files again, compares them, and writes them with an attestation.

    A client library that is not there any more is made again too, and takes its place for the rest
    of this process alone.

    Args:
        original: the files before.
        kinds: the reader of each kind of provenance.
        means: what is here for it.
        output: directory for the files that are made again, and the attestation.

    Raises:
        PatchgenError: making them again failed, with the exit code that the command has.
        FileError: the file system refused.
    """
    read = kinds[original.provenance.kind](original, means)
    with outputs.directory(means.work), files.scratch("rebuild", means.work) as scratch:
        directory, cache = os.path.join(scratch, "made"), os.path.join(scratch, "cache")
        with file_errors():
            os.mkdir(directory)
            _link_sources(means.cache, cache)
        differences = _make_client(original, kinds, means, scratch)
        product = read.build(directory, cache)
        again = statement.read(product + statement.SUFFIX)
        differences += _compare(original, product)
        main = os.path.join(output, os.path.relpath(product, directory))
        with file_errors(), contextlib.suppress(FileNotFoundError):
            os.unlink(main + ATTESTATION)  # of a rebuild before
        _deliver(directory, output)
    if differences:
        return Rebuilt(main, None, tuple(differences))
    with file_errors():
        described = _attest(original, again, original.list_files(main))
        files.replace(os.fsencode(main + ATTESTATION), statement.dump(described))
    return Rebuilt(main, main + ATTESTATION)


def check_output(original: Original, output: str) -> None:
    """Refuses a directory in which the rebuilt files would replace those that they are compared to.

    Raises:
        OptionsError: it is such a directory.
    """
    home = original.provenance.kind in LIBRARIES
    main = os.path.join(output, homes.ARCHIVE if home else os.path.basename(original.path))
    written = {os.path.realpath(path) for path in (main, main + statement.SUFFIX)}
    if not written.isdisjoint(map(os.path.realpath, (original.path, original.source))):
        raise OptionsError(f"-o {output}: has the files themselves; give another directory")


def _link_sources(cache: str, fresh: str) -> None:
    """Makes a cache with the sources of another one, and nothing that was compiled."""
    os.mkdir(fresh)
    there = os.listdir(cache) if os.path.isdir(cache) else []
    for name in {*there} - {caches.COMPILED}:
        os.symlink(os.path.join(cache, name), os.path.join(fresh, name))


def _make_client(
    original: Original, kinds: Mapping[str, Reader], means: Means, scratch: str
) -> list[Difference]:
    """Makes the recorded client library again; shows it at its path if it is not there.

    Returns:
        Its differences from the one that was linked.
    """
    client = original.client()
    if client is None:
        return []
    directory = os.path.join(scratch, "client")
    main = kinds[client.provenance.kind](client, means).build(directory, means.cache)
    home = os.path.dirname(os.path.dirname(client.path))
    wanted = original.provenance.find_digest(origin.ARCHIVE) or ""
    if needs.is_there(home, wanted):
        found = compare.compare_files(client.list_files(), client.list_files(main))
        return [replace(one, path=_CLIENT + one.path) for one in found]
    with file_errors():
        digest = files.sha256(main)
    place.show_at(directory, home)
    if digest == wanted:
        return []
    return [Difference(_CLIENT + homes.ARCHIVE, Aspect.CONTENTS, wanted, digest)]


def _compare(original: Original, product: str) -> list[Difference]:
    """Compares the files with those that were made again.

    Raises:
        FileError: one cannot be read.
    """
    with contextlib.suppress(OptionsError):  # no archive, or one that was damaged
        return compare.compare(original.path, product)
    return compare.compare_files(original.list_files(), original.list_files(product))


def _deliver(made: str, output: str) -> None:
    """Copies the files that were made, each whole or not at all.

    Raises:
        FileError: one cannot be written.
    """
    with outputs.directory(output):
        for directory, _, names in os.walk(made):
            for name in names:
                source = os.path.join(directory, name)
                target = os.path.join(output, os.path.relpath(source, made))
                with file_errors():
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(source, "rb") as file, files.replacing(target) as copy:
                    shutil.copyfileobj(file, copy)


def _attest(original: Original, again: Provenance, rebuilt: Mapping[str, str]) -> dict[str, object]:
    """Describes files that were made again with the same bytes: an in-toto Statement.

    It is not signed: whoever rebuilds does that.
    """
    made = [statement.describe_file(name, files.sha256(path)) for name, path in rebuilt.items()]
    source = files.sha256(original.source)
    return {
        "_type": statement.TYPE,
        "subject": made,  # which is what they were compared with, whatever is at its place by now
        "predicateType": _PREDICATE,
        "predicate": {
            "result": "reproduced",
            "rebuilt": made,
            "provenance": statement.describe_file(os.path.basename(original.source), source),
            "builder": {"id": statement.BUILDER, "version": dict(again.builder)},
            "toolchain": again.resolved["toolchain"],
        },
    }
