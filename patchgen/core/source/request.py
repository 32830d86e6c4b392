"""Request for a source. A submodule that is left out is inactive in git's configuration."""

from __future__ import annotations

import ast
import os
import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchgen.core.source.places import Places
from patchgen.errors import OptionsError
from patchgen.system.git import GitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from patchgen.core.patch.pins import Pin
    from patchgen.core.source.repository import Repository
    from patchgen.system.git import Git

_SETUP = "setup.py"  # of PyTorch, which names what it does not start without
_EVERY = "get_submodule_folders"  # in a setup.py that wants all that PyTorch's .gitmodules names


@dataclass(frozen=True)
class SourceRequest:
    """A commit, what to leave out of its tree, and how to get it."""

    pin: Pin
    without: Sequence[str] = ()
    """Paths of submodules in the tree, left out with all that is in them, from now on."""
    everything: bool = False
    """True where nothing that was left out before stays so."""
    places: Places = field(default_factory=Places)
    """Places before the network."""

    def leaves_out(self, repository: Repository) -> bool:
        """True for one of `without`, and for all in it."""
        return any(_inside(repository.path, path) for path in self.without)

    def check(self, parent: Repository, children: Iterable[Repository], setup: bytes) -> None:
        """Refuses paths that are no submodule of the parent, or that PyTorch's setup.py needs.

        Args:
            parent: a repository of the tree.
            children: its submodules.
            setup: as `read_setup` gives it.

        Raises:
            OptionsError: with the path.
        """
        paths = [child.path for child in children]
        wanted = _insisted(setup, paths)
        for path in self.without:
            if parent.path and not _inside(path, parent.path):
                continue
            if not any(_inside(path, child) for child in paths) and path != parent.path:
                raise OptionsError(f"--without {path}: no submodule; .gitmodules names them")
            needed = [one for one in wanted if _inside(one, path)]
            if needed:
                raise OptionsError(
                    f"--without {path}: PyTorch's setup.py does not start without {needed[0]}"
                )


def list_inactive(git: Git, parent: Repository) -> set[str]:
    """Names of submodules that the parent is to go without."""
    try:
        listed = git("config", "--local", "-z", "--type=bool", "--get-regexp",
                     r"^submodule\..*\.active$", git_dir=parent.git_dir)  # fmt: skip
    except GitError:  # there is none
        return set()
    said = [os.fsdecode(entry).partition("\n") for entry in listed.split(b"\0") if entry]
    return {key[len("submodule.") : -len(".active")] for key, _, value in said if value == "false"}


def leave_out(git: Git, parent: Repository, name: str) -> None:
    """Records that the parent is to go without the submodule of that name."""
    git("config", f"submodule.{name}.active", "false", git_dir=parent.git_dir)


def read_setup(git: Git, repository: Repository) -> bytes:
    """The setup.py of PyTorch itself; empty where there is none, and for a submodule."""
    if repository.path:
        return b""
    try:
        return git.file(repository.commit, _SETUP, repository.git_dir)
    except GitError:
        return b""


def _insisted(setup: bytes, submodules: Sequence[str]) -> list[str]:
    """The files and submodules without which a setup.py ends before it builds anything.

    Those are what it joins to `third_party_path`, and in later releases all direct submodules.
    """
    try:
        tree = ast.parse(setup)
    except (SyntaxError, ValueError):
        return []
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    found = [
        posixpath.join("third_party", *(ast.literal_eval(part) for part in call.args[1:]))
        for call in calls
        if call.args
        and ast.unparse(call.args[0]) == "third_party_path"
        and all(isinstance(part, ast.Constant) for part in call.args[1:])
    ]
    every = any(ast.unparse(call.func) == _EVERY for call in calls)
    return [*found, *(submodules if every else ())]


def _inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")
