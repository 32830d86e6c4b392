"""What a tree lacks or has otherwise than its pin records. Reads only."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchgen.patch import render, state
from patchgen.source import mark
from patchgen.source.place import head, in_the_way, placed
from patchgen.source.repository import git_dir_of, submodules
from patchgen.system import paths

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from patchgen.patch.pins import Pin
    from patchgen.source.repository import Repository
    from patchgen.system.git import Git

_SHOWN = 10  # files of one repository
_HIDDEN = "hidden"
_MEANING = {
    "A": "a file that was added",
    "D": "nothing",
    "M": "local changes",
    "T": "another type of file",
    _HIDDEN: "a file that git was told not to look at",
}


@dataclass(frozen=True)
class Problem:
    """Something that is not as the pin records it."""

    path: str
    expected: str
    found: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.path}: expected {self.expected}, found {self.found}"


@dataclass
class Survey:
    """The repositories that are in their place, those that can be fetched, and what is wrong."""

    state: state.Overall | None = None
    present: list[Repository] = field(default_factory=list)
    absent: list[Repository] = field(default_factory=list)
    wrong: list[Problem] = field(default_factory=list)


def survey(git: Git, root: Repository, pin: Pin) -> Survey:
    """Looks at a whole tree. What is in a repository that is absent or wrong is not known.

    Raises:
        ToolError: git cannot read a repository.
    """
    found = Survey()
    waiting = [root]
    while waiting:
        repository = waiting.pop(0)
        if not placed(repository):
            problem = _unplaced(repository)
            if problem is None:
                found.absent.append(repository)
            else:
                found.wrong.append(problem)
            continue
        commit = head(repository)
        if commit != repository.commit:
            found.wrong.append(Problem(repository.shown, repository.commit, commit or "none"))
            continue
        found.present.append(repository)
        known: Collection[str] = ()
        if repository is root:
            known = _patched(found, root, pin)
        found.wrong.extend(_files(git, repository, known))
        waiting.extend(submodules(git, repository))
    return found


def _patched(found: Survey, root: Repository, pin: Pin) -> set[str]:
    """Judges the files of the patch, and returns which these are."""
    patch = state.inspect(paths.from_native(root.root), (pin,))
    found.state = patch.overall
    found.wrong.extend(
        Problem(file.path, f"blob {file.expected}", file.found or file.detail)
        for file in patch.wrong
    )
    if patch.overall is state.Overall.PARTLY:
        advice = "partly patched; mend it with: switchml-patch revert"
        found.wrong.append(Problem(root.shown, "clean or patched", advice))
    return {file.path for file in pin.files} | set(render.new_paths(pin))


def _unplaced(repository: Repository) -> Problem | None:
    """Why the repository cannot be put into its place."""
    if os.path.lexists(os.path.join(repository.work_tree, ".git")):
        if git_dir_of(repository.work_tree) is None:
            return Problem(repository.shown, repository.commit, "a .git that names no repository")
        wanted = mark.read(repository)
        if wanted != repository.commit and os.listdir(repository.git_dir):
            found = f"an unfinished {wanted}" if wanted else "a repository without a commit"
            return Problem(repository.shown, repository.commit, found)
    names = in_the_way(repository)
    if not names:
        return None
    shown = ", ".join(paths.printable(paths.from_native(name)) for name in sorted(names)[:3])
    return Problem(repository.shown, repository.commit, f"other files there: {shown}")


def _files(git: Git, repository: Repository, known: Collection[str]) -> Iterator[Problem]:
    """Files that differ from the commit, or that git was told not to look at."""
    run = functools.partial(git, git_dir=repository.git_dir, work_tree=repository.work_tree)
    status = run("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no",
                 "--ignore-submodules=all")  # fmt: skip
    listed = run("ls-files", "-z", "-v")
    differing = [
        (entry[:2].strip()[-1:].decode(), entry[3:]) for entry in status.split(b"\0") if entry
    ] + [
        (_HIDDEN, entry[2:])
        for entry in listed.split(b"\0")
        if entry[:1].islower() or entry[:1] == b"S"
    ]
    named = [(code, paths.decode(path)) for code, path in differing]
    named = [(code, path) for code, path in named if path not in known]
    for code, path in named[:_SHOWN]:
        name = paths.printable(os.path.join(paths.from_native(repository.path), path))
        yield Problem(name, "the committed file", _MEANING.get(code, "a change"))
    if len(named) > _SHOWN:
        more = len(named) - _SHOWN
        yield Problem(repository.shown, "the committed files", f"{more} more that differ")
