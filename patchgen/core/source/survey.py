"""Survey of a tree: repositories present, absent or left out, and problems. Only reads."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from patchgen.core.patch import render
from patchgen.core.patch.pins import Pin
from patchgen.core.patch.state import Overall, State, inspect
from patchgen.core.source.repository import Repository, submodules
from patchgen.core.source.request import SourceRequest, list_inactive, read_setup
from patchgen.core.source.staging import (
    is_placed,
    is_staged,
    list_marks_begun,
    list_obstacles,
    read_mark,
)
from patchgen.errors import TreeError
from patchgen.system import paths
from patchgen.system.git import Git, directory_of

_SHOWN = 10  # changed files of one repository in a message
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
    """Path that differs from what the pin records."""

    path: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, found {self.found}"


class UnsoundError(TreeError):
    """A tree differs from what the pin records; `problems` has a line for each path."""

    def __init__(self, root: str, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        advice = f"{root}: nothing of this is changed; fix it, or give a new directory"
        super().__init__("\n".join([*self.problems, advice]))


@dataclass
class Survey:
    """Repositories of a tree, or of a part of it, by their state."""

    tree: State | None = None
    """State of the files that the patch touches; None in a part without them."""
    present: list[Repository] = field(default_factory=list)
    absent: list[Repository] = field(default_factory=list)
    left_out: list[Repository] = field(default_factory=list)
    wrong: list[Problem] = field(default_factory=list)
    wanted: dict[Repository, list[str]] = field(default_factory=dict)
    """Paths of absent submodules, relative to the repository that they are in."""
    unwanted: dict[Repository, list[str]] = field(default_factory=dict)
    """Names of submodules to leave out that git's configuration still has as active."""

    def add(self, more: Survey) -> None:
        """Add the survey of another part; only its absent repositories remain absent."""
        self.tree = more.tree or self.tree
        self.present += more.present
        self.left_out += more.left_out
        self.absent = more.absent

    def require_sound(self, root: Repository) -> Survey:
        """Return the survey itself, if it has no problems.

        Raises:
            UnsoundError: there are problems; each path is named.
        """
        if self.wrong:
            raise UnsoundError(root.printable, [str(problem) for problem in self.wrong])
        return self


def survey(
    git: Git, begin: Sequence[Repository], wanted: SourceRequest, tree: State | None = None
) -> Survey:
    """Survey repositories and, where these are present, their submodules.

    `tree` is the state of PyTorch's tree, if it has been inspected.

    Raises:
        OptionsError: a submodule cannot be left out.
        ToolError: git cannot read a repository.
    """
    found = Survey(tree)
    waiting = [*begin]
    while waiting:
        repository = waiting.pop(0)
        if not is_placed(repository):
            problem = find_obstacle(repository)
            if problem is None:
                found.absent.append(repository)
            else:
                found.wrong.append(problem)
            continue
        commit = repository.head
        if commit != repository.commit:
            found.wrong.append(Problem(repository.printable, repository.commit, commit or "none"))
            continue
        found.present.append(repository)
        known: Collection[str] = ()
        if not repository.path:
            known = _patched(found, repository, wanted.pin)
        found.wrong.extend(list_changes(git, repository, known))
        waiting.extend(_children(git, repository, wanted, found))
    return found


def _children(
    git: Git, parent: Repository, wanted: SourceRequest, found: Survey
) -> Iterator[Repository]:
    """Yield the submodules that are wanted or present."""
    children = submodules(git, parent)
    if wanted.without:
        wanted.check(parent, children, read_setup(git, parent))
    known = list_inactive(git, parent) if children else set()
    for child in children:
        name = child.names[-1]
        out = wanted.leaves_out(child) or (name in known and not wanted.everything)
        if out and name not in known:
            found.unwanted.setdefault(parent, []).append(name)
        if not is_placed(child):
            if out:
                found.left_out.append(child)
                continue
            path = os.path.relpath(child.path, parent.path or ".")
            found.wanted.setdefault(parent, []).append(path)
        yield child


def _patched(found: Survey, root: Repository, pin: Pin) -> set[str]:
    """Add problems of the patch's files, and return the paths of these files."""
    patch = found.tree or inspect(paths.from_native(root.root), (pin,))
    found.tree = patch
    found.wrong.extend(
        dict.fromkeys(
            Problem(file.obstacle, "a directory", file.detail)
            if file.obstacle
            else Problem(file.path, f"blob {file.expected}", file.found or file.detail)
            for file in patch.wrong
        )
    )
    if patch.overall is Overall.PARTLY:
        advice = "partly patched; undo that with: switchml-patch revert"
        found.wrong.append(Problem(root.printable, "clean or patched", advice))
    return {file.path for file in pin.files} | set(render.new_paths(pin))


def find_obstacle(repository: Repository) -> Problem | None:
    """Return the reason why a repository cannot be checked out at its path."""
    if os.path.lexists(os.path.join(repository.work_tree, ".git")):
        if directory_of(repository.work_tree) is None:
            return Problem(
                repository.printable, repository.commit, "a .git that names no repository"
            )
        unfinished = None if repository.path else read_mark(repository)
        ours = unfinished == repository.commit or is_staged(repository)
        if not ours and len(os.listdir(repository.git_dir)) > len(list_marks_begun(repository)):
            found = f"an unfinished {unfinished}" if unfinished else "a repository without a commit"
            return Problem(repository.printable, repository.commit, found)
    names = list_obstacles(repository)
    if not names:
        return None
    shown = ", ".join(paths.printable(paths.from_native(name)) for name in sorted(names)[:3])
    return Problem(repository.printable, repository.commit, f"other files there: {shown}")


def list_changes(
    git: Git, repository: Repository, known: Collection[str] = ()
) -> Iterator[Problem]:
    """Yield files that differ from the commit, or are hidden from git by its index."""
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
        yield Problem(repository.printable, "the committed files", f"{more} more that differ")
