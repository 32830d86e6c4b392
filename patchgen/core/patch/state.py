"""State of a PyTorch tree, read from its hooked and new files. Changes nothing."""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from patchgen import __version__
from patchgen.core.patch import obstacles, record, render
from patchgen.core.patch.pins import HookedFile, Pin, enumerate_names, serving
from patchgen.core.patch.record import Record
from patchgen.errors import TreeError
from patchgen.options import Options
from patchgen.system import git, paths, untrusted
from patchgen.system.files import TEMPORARY
from patchgen.system.git_objects import blob_id

_EDITED = "wrong commit or a foreign edit (git diff shows it)"
_ON_TOP = "has a foreign edit on top of the patch"
_ADDED = "is not a file of this patch, or was edited"
_CRLF = "has CRLF line ends; check it out again with: git config core.autocrlf false"
OTHER_TOOL = "revert the tree with that version first"
"""Advice for a tree that another version of switchml-patch patched."""
_FOR = "was written for the pin {0}; revert that first: switchml-patch revert --pytorch {0}"


class FileKind(str, Enum):
    """State of one file of the tree."""

    PRE = "pre-image"
    POST = "post-image"
    OURS = "ours"
    ABSENT = "absent"
    FOREIGN = "foreign"
    CRLF = "CRLF line ends"
    LINK = "symbolic link"
    OBSTRUCTED = "obstructed"


class Overall(str, Enum):
    """State of the whole tree."""

    CLEAN = "clean"
    PATCHED = "patched"
    PARTLY = "partly patched"
    EDITED = "foreign edits"
    OTHER_TOOL = "patched by another version"
    OTHER = "another version"
    NOT_PYTORCH = "not a PyTorch tree"


@dataclass(frozen=True)
class FileState:
    """State of a file: its blob id and the expected one, and what is wrong with it.

    `obstacle` is the path that is in the way, where that is not the file itself.
    """

    path: str
    kind: FileKind
    found: str | None = None
    expected: str | None = None
    detail: str = ""
    content: bytes | None = field(default=None, repr=False)
    obstacle: str = ""


@dataclass(frozen=True)
class State:
    """State of a tree at one moment.

    `pin` is the pin with the most matching files, None where no file matches. Where several pins
    match equally, the pin is the named one, else that of the flags file, else that of HEAD;
    otherwise it is None, and `tied` has all of them. `options` are those in the flags file if this
    version of switchml-patch wrote it, and `made_for` is the name of their pin. `version` is
    another version of switchml-patch that patched the tree. `leftovers` are temporary files of a
    killed run.
    """

    root: str
    overall: Overall
    pin: Pin | None
    options: Options | None
    hooked: tuple[FileState, ...]
    new: tuple[FileState, ...]
    leftovers: tuple[str, ...]
    head: git.Head | None
    tied: tuple[Pin, ...] = ()
    made_for: str | None = None
    version: str | None = None

    @property
    def files(self) -> tuple[FileState, ...]:
        """All files: first the hooked ones, then the new ones."""
        return self.hooked + self.new

    @property
    def tie(self) -> str | None:
        """Message about several pins that match equally."""
        names = enumerate_names(self.tied, "and")
        return f"its hooked files are those of {names}; name one with --pytorch" if names else None

    @property
    def wrong(self) -> tuple[FileState, ...]:
        """Files that neither apply nor revert may touch."""
        good = {FileKind.PRE, FileKind.POST}, {FileKind.OURS, FileKind.ABSENT}
        return (
            *(file for file in self.hooked if file.kind not in good[0]),
            *(file for file in self.new if file.kind not in good[1]),
        )


def resolve(tree: str) -> str:
    """Return the real, absolute path of a tree.

    Raises:
        TreeError: the path is not a directory.
    """
    root = os.path.realpath(paths.encode(tree))
    if not os.path.isdir(root):
        what = "not a directory" if os.path.lexists(root) else "no such directory"
        raise TreeError(f"{paths.printable(tree)}: {what}")
    return paths.decode(root)


def inspect(tree: str, pins: Sequence[Pin], named: Pin | None = None) -> State:
    """Inspect a tree, and compare it with the pin that most of its files match.

    `named` is the user's choice among pins that match equally.

    Raises:
        TreeError: the path is not a directory.
        FileError: a file cannot be read.
    """
    root = resolve(tree)
    compared = [(pin, tuple(_hooked(root, file, pins) for file in pin.files)) for pin in pins]
    agreeing, present = most = max(_agreement(hooked) for _, hooked in compared)
    best = [(pin, hooked) for pin, hooked in compared if _agreement(hooked) == most]
    head = git.head(root)
    version = _other_version(root, [pin for pin, _ in best])
    if not agreeing:
        overall = Overall.OTHER if present else Overall.NOT_PYTORCH
        overall = Overall.OTHER_TOOL if version else overall
        return State(root, overall, None, None, best[0][1], (), (), head, version=version)
    rank = functools.partial(_evidence, root, named, head)
    pin, hooked = max(best, key=lambda candidate: rank(candidate[0]))
    decided = len(best) == 1 or any(rank(pin))
    found, new = _new(root, pin, pins)
    patched = FileKind.POST in {file.kind for file in hooked}
    if patched or FileKind.OURS in {file.kind for file in new}:
        hooked = tuple(_of_a_patched_tree(own, file) for own, file in zip(hooked, pin.files))
    leftovers = tuple(
        file.path + TEMPORARY
        for file in hooked + new
        if not file.obstacle
        and os.path.lexists(paths.encode(os.path.join(root, file.path + TEMPORARY)))
    )
    state = State(
        root, Overall.PARTLY, pin if decided else None, found and found.options, hooked, new,
        leftovers, head, () if decided else tuple(pin for pin, _ in best), found and found.pin,
        version,
    )  # fmt: skip
    return replace(state, overall=_overall(state))


def _evidence(root: str, named: Pin | None, head: git.Head | None, pin: Pin) -> tuple[bool, ...]:
    """Return what speaks for a pin, the strongest first, if other pins match as well."""
    found = _record(root, pin)
    return (
        pin == named,
        found is not None and found.pin == pin.name,
        head is not None and head.commit == pin.commit,
    )


def _record(root: str, pin: Pin) -> Record | None:
    return record.parse(_read(root, render.flags_path(pin)).content or b"")


def _other_version(root: str, pins: Sequence[Pin]) -> str | None:
    """Return another version of switchml-patch that patched a tree."""
    found = (_record(root, pin) for pin in pins)
    versions = (one.version for one in found if one and one.version != __version__)
    return next(versions, None)


def _agreement(hooked: Sequence[FileState]) -> tuple[int, int]:
    """Return how many files match the pin, and how many exist."""
    agreeing = sum(file.kind in {FileKind.PRE, FileKind.POST, FileKind.CRLF} for file in hooked)
    return agreeing, sum(file.kind is not FileKind.ABSENT for file in hooked)


def _overall(state: State) -> Overall:
    if state.version:
        return Overall.OTHER_TOOL
    if state.wrong:
        return Overall.EDITED
    hooked = {file.kind for file in state.hooked}
    new = {file.kind for file in state.new}
    if state.leftovers:
        return Overall.PARTLY
    if hooked == {FileKind.PRE} and new == {FileKind.ABSENT}:
        return Overall.CLEAN
    return (
        Overall.PATCHED if (hooked, new) == ({FileKind.POST}, {FileKind.OURS}) else Overall.PARTLY
    )


def _hooked(root: str, file: HookedFile, pins: Sequence[Pin]) -> FileState:
    there = replace(_read(root, file.path), expected=file.pre)
    if there.content is None:
        return there
    if there.found in (file.pre, file.post):
        return replace(there, kind=FileKind.PRE if there.found == file.pre else FileKind.POST)
    others = [pin for pin in pins for other in pin.files if there.found in (other.pre, other.post)]
    why = f"is that of {enumerate_names(others, 'and')}" if others else _EDITED
    return _foreign(there, (file.pre, file.post), why)


def _foreign(file: FileState, wanted: Collection[str], why: str) -> FileState:
    """Describe a file with another content; `wanted` are the blob ids that it may have."""
    content = file.content or b""
    unix = content.replace(b"\r\n", b"\n")
    if unix != content and blob_id(unix) in wanted:
        return replace(file, kind=FileKind.CRLF, detail=_CRLF, content=None)
    ends = " (CRLF line ends: core.autocrlf)" if unix != content else ""
    return replace(file, detail=why + ends, content=None)


def _of_a_patched_tree(file: FileState, hooked: HookedFile) -> FileState:
    """Describe a hooked file of a patched tree, which should be the post-image."""
    return replace(file, expected=hooked.post, detail=file.detail.replace(_EDITED, _ON_TOP))


def _new(root: str, pin: Pin, pins: Sequence[Pin]) -> tuple[Record | None, tuple[FileState, ...]]:
    """Return the record of the new files, and their states.

    The record is None unless the flags file is what this version writes for it.
    """
    read = {path: _read(root, path) for path in render.new_paths(pin)}
    flags = render.flags_path(pin)
    found = record.parse(read[flags].content or b"")
    expected = render.fixed_files(pin)
    other = _ADDED
    if found and found.options:
        owner = next(
            (one for one in (pin, *serving(pin.files, pins)) if one.name == found.pin), None
        )
        if owner:
            expected[flags] = render.flags_file(found.options, owner)
        else:
            other = _FOR.format(found.pin)
    states = []
    for path, file in read.items():
        if file.content is None:
            states.append(file)
        elif file.content == expected.get(path):
            states.append(replace(file, kind=FileKind.OURS))
        else:
            wanted = blob_id(expected[path]) if path in expected else None
            why = other if path == flags else _ADDED
            states.append(_foreign(replace(file, expected=wanted), {wanted or ""}, why))
    ours = read[flags].content is not None and read[flags].content == expected.get(flags)
    return found if ours else None, tuple(states)


def _read(root: str, path: str) -> FileState:
    """Return a file with its content, which is foreign as far as known, or what is in its place.

    Raises:
        FileError: it cannot be read.
    """
    obstacle = obstacles.find(root, path)
    if obstacle is not None:
        kind = FileKind.LINK if obstacle.is_link else FileKind.OBSTRUCTED
        return FileState(path, kind, detail=obstacle.detail, obstacle=obstacle.path)
    name = os.path.join(root, path)
    mode = obstacles.find_mode(name)
    if mode is None:
        return FileState(path, FileKind.ABSENT, detail="is missing")
    if stat.S_ISLNK(mode):
        detail = "is a symbolic link; put the file itself there"
        return FileState(path, FileKind.LINK, detail=detail)
    if not stat.S_ISREG(mode):
        return FileState(path, FileKind.OBSTRUCTED, detail="is not a regular file")
    content = untrusted.read_file(paths.encode(name))
    return FileState(path, FileKind.FOREIGN, blob_id(content), content=content)


def refusal(state: State) -> str:
    """Explain, file by file, why a tree can be neither patched nor reverted."""
    root = paths.printable(state.root)
    if state.overall is Overall.NOT_PYTORCH:
        return f"{root}: not a PyTorch tree: it has no {state.hooked[0].path}"
    if state.version:
        return f"{root}: patched by switchml-patch {state.version}; {OTHER_TOOL}"
    lines = explain(state.wrong)
    if state.tied:
        lines.append(f"{root}: {state.tie}")
    elif state.pin is None:
        lines.append(f"{root}: not a commit that there is a pin for; see: switchml-patch pins")
    else:
        edited = FileKind.FOREIGN in {file.kind for file in state.wrong}
        lines.append(
            f"nothing was changed in {root}: put the files above right"
            f"{' (git checkout undoes edits)' if edited else ''} "
            f"and try again; all others are those of {state.pin.name}"
        )
    return "\n".join(lines)


def explain(files: Iterable[FileState]) -> list[str]:
    """Return a line about each file that is not as expected, or about what is in its way."""
    return [*dict.fromkeys(map(_explain, files))]


def _explain(file: FileState) -> str:
    if not file.found:
        return f"{file.obstacle or file.path}: {file.detail}"
    expected = f"expected blob {file.expected}, " if file.expected else ""
    ids = f"{expected}found {'' if expected else 'blob '}{file.found}"
    return f"{file.path}: {file.detail} ({ids})"
