"""State of a PyTorch tree, read from its hooked and new files. Changes nothing."""

from __future__ import annotations

import errno
import functools
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from patchgen import __version__
from patchgen.core.patch import record, render
from patchgen.core.patch.pins import HookedFile, Pin, enumerate_names, serving
from patchgen.core.patch.record import Record
from patchgen.errors import TreeError
from patchgen.options import Options
from patchgen.system import git, paths
from patchgen.system.files import TEMPORARY
from patchgen.system.git_objects import blob_id

_EDITED = "wrong commit or a foreign edit (git diff shows it)"
_BY = "was written by switchml-patch {}; revert with that version"
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
    UNREADABLE = "unreadable"


class Overall(str, Enum):
    """State of the whole tree."""

    CLEAN = "clean"
    PATCHED = "patched"
    PARTLY = "partly patched"
    EDITED = "foreign edits"
    OTHER = "another version"
    NOT_PYTORCH = "not a PyTorch tree"


@dataclass(frozen=True)
class FileState:
    """State of a file: its blob id and the expected one, and what is wrong with it."""

    path: str
    kind: FileKind
    found: str | None = None
    expected: str | None = None
    detail: str = ""
    content: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class State:
    """State of a tree at one moment.

    `pin` is the pin with the most matching files, None where no file matches. Where several pins
    match equally, the pin is the named one, else that of the flags file, else that of HEAD;
    otherwise it is None, and `tied` has all of them. `options` are those in the flags file if this
    version of switchml-patch wrote it, and `made_for` is the name of their pin. `leftovers` are
    temporary files of a killed run.
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
    """
    root = resolve(tree)
    compared = [(pin, tuple(_hooked(root, file, pins) for file in pin.files)) for pin in pins]
    agreeing, present = most = max(_agreement(hooked) for _, hooked in compared)
    best = [(pin, hooked) for pin, hooked in compared if _agreement(hooked) == most]
    head = git.head(root)
    if not agreeing:
        overall = Overall.OTHER if present else Overall.NOT_PYTORCH
        return State(root, overall, None, None, best[0][1], (), (), head)
    rank = functools.partial(_evidence, root, named, head)
    pin, hooked = max(best, key=lambda candidate: rank(candidate[0]))
    decided = len(best) == 1 or any(rank(pin))
    found, version, new = _new(root, pin, pins)
    patched = FileKind.POST in {file.kind for file in hooked}
    if patched or version or FileKind.OURS in {file.kind for file in new}:
        hooked = tuple(
            _of_a_patched_tree(own, file, version) for own, file in zip(hooked, pin.files)
        )
    leftovers = tuple(
        file.path + TEMPORARY
        for file in hooked + new
        if os.path.lexists(paths.encode(os.path.join(root, file.path + TEMPORARY)))
    )
    state = State(
        root, Overall.PARTLY, pin if decided else None, found and found.options, hooked, new,
        leftovers, head, () if decided else tuple(pin for pin, _ in best), found and found.pin,
    )  # fmt: skip
    return replace(state, overall=_overall(state))


def _evidence(root: str, named: Pin | None, head: git.Head | None, pin: Pin) -> tuple[bool, ...]:
    """Return what speaks for a pin, the strongest first, if other pins match as well."""
    found = record.parse(_read(root, render.flags_path(pin))[1] or b"")
    return (
        pin == named,
        found is not None and found.pin == pin.name,
        head is not None and head.commit == pin.commit,
    )


def _agreement(hooked: Sequence[FileState]) -> tuple[int, int]:
    """Return how many files match the pin, and how many exist."""
    agreeing = sum(file.kind in {FileKind.PRE, FileKind.POST, FileKind.CRLF} for file in hooked)
    return agreeing, sum(file.kind is not FileKind.ABSENT for file in hooked)


def _overall(state: State) -> Overall:
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
    kind, content, detail = _read(root, file.path)
    if content is None:
        return FileState(file.path, kind, None, file.pre, detail)
    found = blob_id(content)
    if found in (file.pre, file.post):
        kind = FileKind.PRE if found == file.pre else FileKind.POST
        return FileState(file.path, kind, found, file.pre, "", content)
    if b"\r\n" in content and blob_id(content.replace(b"\r\n", b"\n")) in (file.pre, file.post):
        detail = "has CRLF line ends; check it out again with: git config core.autocrlf false"
        return FileState(file.path, FileKind.CRLF, found, file.pre, detail)
    others = [pin for pin in pins for other in pin.files if found in (other.pre, other.post)]
    detail = f"is that of {enumerate_names(others, 'and')}" if others else _EDITED
    return FileState(file.path, FileKind.FOREIGN, found, file.pre, detail)


def _of_a_patched_tree(file: FileState, hooked: HookedFile, version: str | None) -> FileState:
    """Describe a hooked file of a patched tree, which should be the post-image."""
    detail = file.detail
    if file.kind is FileKind.FOREIGN and detail == _EDITED:
        detail = _BY.format(version) if version else "has a foreign edit on top of the patch"
    return replace(file, expected=hooked.post, detail=detail)


def _new(
    root: str, pin: Pin, pins: Sequence[Pin]
) -> tuple[Record | None, str | None, tuple[FileState, ...]]:
    """Return the record of the new files, the foreign version that wrote them, and their states.

    The record is None unless the flags file is what this version writes for it.
    """
    read = {path: _read(root, path) for path in render.new_paths(pin)}
    flags = render.flags_path(pin)
    found = record.parse(read[flags][1] or b"")
    version = found.version if found and found.version != __version__ else None
    expected = render.fixed_files(pin)
    edited = _BY.format(version) if version else "is not a file of this patch, or was edited"
    other = edited
    if found and found.options:
        owner = next(
            (one for one in (pin, *serving(pin.files, pins)) if one.name == found.pin), None
        )
        if owner:
            expected[flags] = render.flags_file(found.options, owner)
        else:
            other = _FOR.format(found.pin)
    states = []
    for path, (kind, content, detail) in read.items():
        if content is None:
            states.append(FileState(path, kind, detail=detail))
        elif content == expected.get(path):
            states.append(FileState(path, FileKind.OURS, blob_id(content), content=content))
        else:
            wanted = blob_id(expected[path]) if path in expected else None
            why = other if path == flags else edited
            states.append(FileState(path, FileKind.FOREIGN, blob_id(content), wanted, why))
    ours = read[flags][1] is not None and read[flags][1] == expected.get(flags)
    return found if ours else None, version, tuple(states)


def _read(root: str, path: str) -> tuple[FileKind, bytes | None, str]:
    """Return the kind of a file as far as known, its content if readable, and the problem."""
    name = paths.encode(os.path.join(root, path))
    try:
        status = os.lstat(name)
        if stat.S_ISLNK(status.st_mode):
            return FileKind.LINK, None, "is a symbolic link; put the file itself there"
        if not stat.S_ISREG(status.st_mode):
            return FileKind.UNREADABLE, None, "is not a regular file"
        with open(name, "rb") as file:
            return FileKind.FOREIGN, file.read(), ""
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return FileKind.ABSENT, None, "is missing"
        return FileKind.UNREADABLE, None, f"cannot be read: {error.strerror}"


def refusal(state: State) -> str:
    """Explain, file by file, why a tree can be neither patched nor reverted."""
    root = paths.printable(state.root)
    if state.overall is Overall.NOT_PYTORCH:
        return f"{root}: not a PyTorch tree: it has no {state.hooked[0].path}"
    lines = [explain(file) for file in state.wrong]
    if state.tied:
        lines.append(f"{root}: {state.tie}")
    elif state.pin is None:
        lines.append(f"{root}: not a commit that there is a pin for; see: switchml-patch pins")
    else:
        lines.append(
            f"nothing was changed in {root}: put the files above right (git checkout undoes edits) "
            f"and try again; all others are those of {state.pin.name}"
        )
    return "\n".join(lines)


def explain(file: FileState) -> str:
    """Return a line about a file that is not as expected."""
    expected = f"expected blob {file.expected}, " if file.expected else ""
    ids = f" ({expected}found {'' if expected else 'blob '}{file.found})" if file.found else ""
    return f"{file.path}: {file.detail}{ids}"
