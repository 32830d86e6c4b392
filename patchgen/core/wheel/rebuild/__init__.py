"""Rebuild: makes files again from their provenance alone, and compares the bytes."""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchgen.core.library import homes, origin
from patchgen.core.wheel import compare, place, provenance
from patchgen.core.wheel.compare import Difference, Kind
from patchgen.core.wheel.rebuild import attestation, causes, needs
from patchgen.core.wheel.rebuild.kinds import KINDS
from patchgen.core.wheel.rebuild.site import Site
from patchgen.core.wheel.rebuild.target import LIBRARIES, Target, find, list_files
from patchgen.errors import OptionsError, ToolError, file_errors, find_family
from patchgen.extras.install import plugin
from patchgen.system import files, outputs, paths, process, statement
from patchgen.system.checks import Check
from patchgen.system.process import Program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.core.wheel.rebuild.causes import Cause
    from patchgen.system.statement import Provenance

__all__ = ["KINDS", "Outcome", "Site", "Target", "check_output", "find", "find_needs", "rebuild"]

_LOGGER = logging.getLogger(__name__)
_CLIENT = "client library: "


@dataclass(frozen=True)
class Outcome:
    """Outcome of a rebuild."""

    made: str
    """Path of the main file that was made again."""
    attestation: str | None
    """Path of the attestation; None where something differs."""
    differences: tuple[Difference, ...] = ()
    """Differences between the files before and those that were made again; none where the bytes
    are identical."""
    causes: tuple[Cause, ...] = ()
    """Recorded values that were others this time."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Paths of the files that differ, before and now."""


def find_needs(target: Target, site: Site) -> list[Check]:
    """Finds what making the files again needs, first of their client library.

    Raises:
        FileError: something cannot be read.
    """
    made = target.provenance
    wrong = tuple(
        f"{name}: not as it was made; its SHA-256 is not that of its provenance"
        for name, path in target.files.items()
        if not os.path.isfile(path) or files.sha256(path) != _digests(made)[name]
    )
    found = _read_client(made)
    nested = KINDS[found.kind].find_needs(found, site) if found is not None else ()
    return [
        *([Check("files", wrong, os.path.basename(target.path), required=False)] if wrong else []),
        *(replace(check, name=_CLIENT + check.name) for check in nested),
        *KINDS[made.kind].find_needs(made, site),
    ]


def rebuild(target: Target, site: Site, output: str) -> Outcome:
    """Makes the files again, compares them, and writes them with an attestation.

    Args:
        target: the files.
        site: what is here for it.
        output: directory for the files that are made again, and the attestation.

    Raises:
        OptionsError: the directory has the files themselves.
        PatchgenError: making them again failed, with the exit code that it had.
        FileError: the file system refused.
    """
    with outputs.directory(site.work), files.scratch("rebuild", site.work) as scratch:
        return _rebuild(target, replace(site, scratch=scratch), output)


def check_output(target: Target, output: str) -> None:
    """Refuses a directory in which the rebuilt files would replace those that they are compared to.

    Raises:
        OptionsError: it is such a directory.
    """
    home = target.provenance.kind in LIBRARIES
    main = os.path.join(output, homes.ARCHIVE if home else os.path.basename(target.path))
    written = {os.path.realpath(path) for path in (main, main + statement.SUFFIX)}
    if not written.isdisjoint(map(os.path.realpath, (target.path, target.record))):
        raise OptionsError(f"-o {output}: has the files themselves; give another directory")


def _rebuild(target: Target, site: Site, output: str) -> Outcome:
    made, directory = target.provenance, os.path.join(site.scratch, "made")
    with file_errors():
        site.make_cache()
    shown, differences = _make_client(made, site)
    product = _make(made, site, directory, shown)
    again = statement.read(product + statement.SUFFIX)
    differences += _compare(target, product)
    main = os.path.join(output, os.path.relpath(product, directory))
    with file_errors(), contextlib.suppress(FileNotFoundError):
        os.unlink(main + attestation.SUFFIX)  # of a rebuild before
    _deliver(directory, output)
    rebuilt = list_files(made, main)
    if differences:
        pairs = _find_pairs(target.files, rebuilt)
        return Outcome(main, None, tuple(differences), tuple(causes.find(made, again)), pairs)
    described = attestation.describe(target, again, rebuilt)
    with file_errors():
        files.replace(os.fsencode(main + attestation.SUFFIX), statement.dump(described))
    return Outcome(main, main + attestation.SUFFIX)


def _compare(target: Target, product: str) -> list[Difference]:
    """Compares the files with those that were made again.

    Raises:
        FileError: one cannot be read.
    """
    if target.provenance.kind in {provenance.KIND, plugin.KIND}:
        with contextlib.suppress(OptionsError):  # it was changed, and is no sound archive now
            return compare.compare(target.path, product)
    return compare.compare_files(target.files, list_files(target.provenance, product))


def _find_pairs(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Paths of the files that are there on both sides and differ."""
    with file_errors():
        return tuple(
            (path, now[name])
            for name, path in before.items()
            if os.path.isfile(path) and os.path.isfile(now[name])
            if files.sha256(path) != files.sha256(now[name])
        )


def _make_client(made: Provenance, site: Site) -> tuple[tuple[str, str] | None, list[Difference]]:
    """Makes the client library of a provenance again, where that has its own.

    Returns:
        The library's directory and the one that it is to be shown at, where the right one is not
        there; and how it differs from the one that was linked.
    """
    described = _read_client(made)
    if described is None:
        return None, []
    directory = os.path.join(site.scratch, "client")
    with file_errors():
        again = list_files(described, _make(described, site, directory, None))
        home, wanted = paths.native(made.request["homes"]["SWITCHML_HOME"]), _digests(described)
        wanted[homes.ARCHIVE] = made.find_digest(origin.ARCHIVE) or ""
        if needs.is_there(home, wanted[homes.ARCHIVE]):
            before = list_files(described, os.path.join(home, homes.ARCHIVE))
            found = compare.compare_files(before, again)
            return None, [replace(one, path=_CLIENT + one.path) for one in found]
        digests = {name: files.sha256(path) for name, path in again.items()}
    return (directory, home), [
        Difference(_CLIENT + name, Kind.CONTENTS, f"sha256 {wanted[name]}", f"sha256 {digest}")
        for name, digest in digests.items()
        if digest != wanted[name]
    ]


def _make(made: Provenance, site: Site, directory: str, shown: tuple[str, str] | None) -> str:
    """Makes files again by the command of their kind; returns the path of the main one.

    Args:
        made: their provenance.
        site: what is here for it.
        directory: where they go.
        shown: a directory, and the one in whose place the command sees it.

    Raises:
        PatchgenError: the command failed; of the family of its exit code.
    """
    kind = KINDS[made.kind]
    command = [*site.program, *kind.command(made, site, directory)]
    if shown is not None:
        command = place.enclose(command, *shown)
    said: list[str] = []

    def follow(_: str, line: bytes) -> None:
        said.append(line.decode(errors="replace").rstrip())
        _LOGGER.info("%s", said[-1])

    with file_errors():
        os.makedirs(directory, exist_ok=True)
    program = Program(command, site.scratch, site.environment(made), supervised=True)
    code = process.stream(program, follow, limit=None, merged=True)
    if code != 0:
        begun = max((n for n, line in enumerate(said) if line.startswith("error: ")), default=-1)
        why = "\n".join(said[begun:]).removeprefix("error: ")
        raise find_family(code)(f"making the {made.kind} again failed: {why}")
    pattern = kind.product or glob.escape(made.subjects[0].name)
    pattern = os.path.join(glob.escape(directory), pattern)
    products = glob.glob(pattern)
    if len(products) != 1:
        raise ToolError(f"{directory}: has {len(products)} of {pattern}, not one")
    return products[0]


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


def _digests(made: Provenance) -> dict[str, str]:
    return {one.name: one.sha256 for one in made.subjects}


def _read_client(made: Provenance) -> Provenance | None:
    """Provenance of the client library in that of what is linked with it."""
    found = made.resolved.get("client")
    return statement.parse(found) if found is not None else None
