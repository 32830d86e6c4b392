"""Fixes: small edits of SwitchML's source, each of which fixes one fault.

Fixes of the client library are in this folder, those of the switch's controller in `controller`.

A file `ID.fix` begins with a title, and then has files. `file PATH` and `blob ID` name a file of
the pinned commit. `at LINE:COLUMN` is a position in the file, and `at LINE:COLUMN to LINE:COLUMN` a
range that is deleted. Lines count from 1 and columns from 0; the end is not part of the range. The
following lines, each after `> `, are inserted there. `new PATH` is a file that the commit does not
have. So the folder contains none of upstream's text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources

from patchgen.errors import OptionsError, PatchgenError, TreeError
from patchgen.system.git_objects import blob_id

COMMIT = "b5c74a04fa66faa82acab154a4e21c8f76d913f2"
"""Commit of p4lang/p4app-switchML that all fixes are for."""

NEEDED = {
    "DPDK": (
        "duplicates",
        "resent-id",
        "stale-timers",
        "half-batch",
        "foreign-frames",
        "fast-free",
    ),
    "RDMA": ("late-answers",),
}
"""Fixes without which a backend sums wrongly; no group delegates to a library without them."""

LIBRARY, CONTROLLER = "", "controller"  # parts of SwitchML, by the folder of their fixes

_SUFFIX = ".fix"
_IMAGES = "images.json"
_PLACE = re.compile(r"at (\d+):(\d+)(?: to (\d+):(\d+))?")


@dataclass(frozen=True)
class Edit:
    """Range of a text, and its replacement. Positions are line, from 1, and column, from 0."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str


@dataclass(frozen=True)
class FileFix:
    """Edits of a fix in one file."""

    path: str
    blob: str | None
    """Blob id of the file that the edits are for; None if the fix adds the file."""
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Fix:
    """Edits that fix one fault."""

    id: str
    title: str
    """What the library does right with the fix."""
    files: tuple[FileFix, ...]


def parse(identity: str, text: str) -> Fix:
    """Parse the text of a fix's file.

    Raises:
        ValueError: a line is not allowed; the message has its number.
    """
    title, *lines = text.splitlines()
    files: list[tuple[str, str | None, list[tuple[Edit, list[str]]]]] = []
    for number, line in enumerate(lines, 2):
        word, _, rest = line.partition(" ")
        place = _PLACE.fullmatch(line)
        if word == ">" and files and files[-1][2]:
            files[-1][2][-1][1].append(rest)
        elif word == "file":
            files.append((rest, "", []))
        elif word == "blob" and files and files[-1][1] == "":
            files[-1] = (files[-1][0], rest, [])
        elif word == "new":
            files.append((rest, None, [(Edit((1, 0), (1, 0), ""), [])]))
        elif place and files and files[-1][1]:
            first, column, last, until = (int(one) if one else 0 for one in place.groups())
            end = (last, until) if last else (first, column)
            files[-1][2].append((Edit((first, column), end, ""), []))
        elif line:
            raise ValueError(f"{identity}{_SUFFIX}: line {number}: {line}")
    fixed = [
        FileFix(path, blob, tuple(replace(edit, text="\n".join(more)) for edit, more in edits))
        for path, blob, edits in files
    ]
    return Fix(identity, title, tuple(fixed))


def read_shipped(part: str = LIBRARY) -> tuple[Fix, ...]:
    """Return the fixes of a part of SwitchML, in the order of their ids."""
    directory = resources.files(__name__).joinpath(part)
    names = sorted(entry.name for entry in directory.iterdir() if entry.name.endswith(_SUFFIX))
    return tuple(
        parse(name.removesuffix(_SUFFIX), directory.joinpath(name).read_text(encoding="utf-8"))
        for name in names
    )


def read_images(part: str = LIBRARY) -> dict[str, str]:
    """Return the blob ids of the changed files with all fixes applied, by path."""
    text = resources.files(__name__).joinpath(part).joinpath(_IMAGES).read_text(encoding="utf-8")
    found: dict[str, str] = json.loads(text)
    return found


def choose(without: Iterable[str], known: Sequence[Fix]) -> tuple[Fix, ...]:
    """Return the known fixes without those that are left out.

    Raises:
        OptionsError: a fix to leave out is unknown.
    """
    left_out = {*without}
    unknown = sorted(left_out - {fix.id for fix in known})
    if unknown:
        names = ", ".join(fix.id for fix in known)
        raise OptionsError(f"--without {unknown[0]}: no such fix; there are {names}")
    return tuple(fix for fix in known if fix.id not in left_out)


def list_lacking(backends: Iterable[str], there: Collection[str]) -> list[str]:
    """Return the fixes that these backends need and that are missing in `there`."""
    return [fix for one in backends for fix in NEEDED.get(one, ()) if fix not in there]


def list_files(fixes: Iterable[Fix]) -> dict[str, str | None]:
    """Return the blob ids of the files that fixes change, by path; None for files that they add.

    Raises:
        PatchgenError: two fixes are for different versions of a file.
    """
    found: dict[str, str | None] = {}
    for fix in fixes:
        for one in fix.files:
            if one.path in found and (one.blob is None or found[one.path] != one.blob):
                raise PatchgenError(f"fix {fix.id}: {one.path} is another file in another fix")
            found[one.path] = one.blob
    return found


def find_other(fix: Fix, sources: Mapping[str, bytes]) -> str | None:
    """Return a file of the sources that the fix is not for; None if the fix fits."""
    for one in fix.files:
        content = sources.get(one.path)
        if one.blob != (None if content is None else blob_id(content)):
            return one.path
    return None


def apply(fixes: Sequence[Fix], sources: Mapping[str, bytes]) -> dict[str, bytes]:
    """Apply fixes, and return the files that they change or add, by path.

    The result does not depend on the order of the fixes.

    Raises:
        TreeError: a file is not that of the commit.
        PatchgenError: two fixes change the same place.
    """
    fixes = sorted(fixes, key=lambda fix: fix.id)
    found = {}
    for path, blob in list_files(fixes).items():
        content = sources.get(path, b"")
        if blob is not None and blob_id(content) != blob:
            raise TreeError(f"{path}: not the file of commit {COMMIT[:12]}")
        mine = [one for fix in fixes for one in fix.files if one.path == path]
        edits = [edit for one in mine for edit in one.edits]
        found[path] = _apply_edits(path, content.decode("utf-8"), edits).encode()
    return found


def _apply_edits(path: str, text: str, edits: Iterable[Edit]) -> str:
    """Apply edits. Insertions at the same position keep the order in which they are given."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)

    def offset(place: tuple[int, int]) -> int:
        return starts[place[0] - 1] + place[1]

    parts, at = [], 0
    for edit in sorted(edits, key=lambda one: (one.start, one.end)):
        start = offset(edit.start)
        if start < at:
            raise PatchgenError(f"{path}: two fixes change line {edit.start[0]}")
        parts += [text[at:start], edit.text]
        at = offset(edit.end)
    return "".join([*parts, text[at:]])


def verify(fixes: Sequence[Fix], result: Mapping[str, bytes], part: str = LIBRARY) -> None:
    """Compare the result of all fixes of a part with the known blob ids.

    Does nothing if some fixes are left out, because such results have no known ids.

    Raises:
        PatchgenError: a file differs.
    """
    if {fix.id for fix in fixes} != {fix.id for fix in read_shipped(part)}:
        return
    for path, wanted in read_images(part).items():
        if path not in result or blob_id(result[path]) != wanted:
            raise PatchgenError(f"{path}: the fixed file is not the recorded one")
