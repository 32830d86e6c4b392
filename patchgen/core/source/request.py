"""Request for a source. A submodule left out is inactive in git's configuration."""

from __future__ import annotations

import ast
import os
import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from patchgen.core.patch.pins import Pin
from patchgen.core.source.remotes import Remotes
from patchgen.core.source.repository import Repository
from patchgen.errors import OptionsError
from patchgen.system.git import Git, GitError

_SETUP = "setup.py"  # its checks name the submodules that PyTorch needs
_EVERY = "get_submodule_folders"  # called by a setup.py that needs all submodules


@dataclass(frozen=True)
class SourceRequest:
    """Commit to fetch, submodules to leave out, and remotes to fetch from."""

    pin: Pin
    without: Sequence[str] = ()
    """Paths of submodules to leave out from now on, with all submodules in them."""
    everything: bool = False
    """Whether to fetch what an earlier run left out."""
    remotes: Remotes = field(default_factory=Remotes)
    """Where to look before the network."""

    def leaves_out(self, repository: Repository) -> bool:
        """Return whether a repository is one of `without`, or inside one."""
        return any(_inside(repository.path, path) for path in self.without)

    def check(self, parent: Repository, children: Iterable[Repository], setup: bytes) -> None:
        """Refuse paths that are no submodule, or that PyTorch's setup.py needs.

        `children` are the submodules of a repository of the tree, and `setup` is from `read_setup`.

        Raises:
            OptionsError: names the path.
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
    """Return the names of the parent's submodules that are left out."""
    try:
        listed = git("config", "--local", "-z", "--type=bool", "--get-regexp",
                     r"^submodule\..*\.active$", git_dir=parent.git_dir)  # fmt: skip
    except GitError:  # no submodule has this setting
        return set()
    entries = [os.fsdecode(entry).partition("\n") for entry in listed.split(b"\0") if entry]
    return {
        key[len("submodule.") : -len(".active")] for key, _, value in entries if value == "false"
    }


def read_setup(git: Git, repository: Repository) -> bytes:
    """Return PyTorch's setup.py; empty for a submodule, or without such a file."""
    if repository.path:
        return b""
    try:
        return git.file(repository.commit, _SETUP, repository.git_dir)
    except GitError:
        return b""


def _insisted(setup: bytes, submodules: Sequence[str]) -> list[str]:
    """Return the files and submodules without which setup.py stops at once.

    These are its arguments of `third_party_path`, and in later releases all direct submodules.
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
