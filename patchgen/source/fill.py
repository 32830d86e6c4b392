"""Brings the repositories that a tree lacks: the tree's own, then submodules several at once."""

from __future__ import annotations

import concurrent.futures
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable

from patchgen.errors import ToolError
from patchgen.source import mark
from patchgen.source.addresses import sources
from patchgen.source.fetch import complete, fetch, prepare
from patchgen.source.place import place, placed
from patchgen.source.repository import submodules
from patchgen.system import paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchgen.source.addresses import Source
    from patchgen.source.repository import Repository
    from patchgen.system.git import Git

Report = Callable[[str], None]

_SHOWN = 5  # repositories that could not be had
_ADVICE = (
    "what is complete is kept, so start it again; without a network give --mirror (clones or "
    "bundles in a directory, a bundle, or a base URL) or --reference (a clone), or set "
    "url.<base>.insteadOf in git's configuration"
)


@dataclass(frozen=True)
class Places:
    """Where to look before the network."""

    mirrors: Sequence[str] = ()
    references: Sequence[str] = ()


def fill(git: Git, root: Repository, places: Places, jobs: int, report: Report) -> dict[str, str]:
    """Brings all that is absent, and returns which paths were fetched from where.

    Raises:
        ToolError: some could not be had; the others are complete.
        FileError: the disk is full.
        TreeError: a file is in the way; it was not touched.
    """
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        run = _Run(git, places, report, pool)
        try:
            run.begin(root)
            while run.running:
                run.wait()
        except BaseException:
            git.stop()
            pool.shutdown(cancel_futures=True)
            raise
    if run.failed:
        raise ToolError(_summary(run.failed))
    return run.fetched


class _Run:
    """What is being fetched. The main thread alone changes it."""

    def __init__(
        self, git: Git, places: Places, report: Report, pool: concurrent.futures.Executor
    ) -> None:
        self._git = git
        self._places = places
        self._report = report
        self._pool = pool
        self._begun = 0
        self._done = 0
        self.running: dict[concurrent.futures.Future[Source | None], Repository] = {}
        self.fetched: dict[str, str] = {}
        self.failed: list[ToolError] = []

    def begin(self, repository: Repository) -> None:
        """Starts what the repository and those in it lack."""
        if not placed(repository):
            self._begun += 1
            if not repository.path:
                self._report(f"fetching PyTorch {repository.commit[:12]}")
            future = self._pool.submit(_bring, self._git, self._places, repository)
            self.running[future] = repository
            return
        if repository.path:
            mark.remove(repository)
        for child in _children(self._git, repository):
            self.begin(child)

    def wait(self) -> None:
        """Until one or more have ended; then starts what is in them."""
        done, _ = concurrent.futures.wait(
            self.running, return_when=concurrent.futures.FIRST_COMPLETED
        )
        for future in done:
            repository = self.running.pop(future)
            try:
                source = future.result()
            except ToolError as error:
                self.failed.append(error)
                continue
            self._done += 1
            if source is not None:
                self.fetched[paths.from_native(repository.path)] = source.address
            origin = f"from {source.address}" if source else "was fetched before"
            self._report(
                f"[{self._done}/{self._begun}] {repository.shown} {repository.commit[:12]} {origin}"
            )
            self.begin(repository)


def _bring(git: Git, places: Places, repository: Repository) -> Source | None:
    """Fetches what is missing and puts it into its place. None: nothing had to be fetched."""
    prepare(git, repository)
    source = None
    if not complete(git, repository):
        source = fetch(git, repository, sources(repository, places.mirrors, places.references))
    place(git, repository)
    return source


def _children(git: Git, parent: Repository) -> list[Repository]:
    """The submodules of a repository, after telling git about those that it does not know."""
    children = submodules(git, parent)
    try:
        listed = git("config", "--local", "-z", "--name-only", "--get-regexp",
                     r"^submodule\..*\.url$", git_dir=parent.git_dir)  # fmt: skip
    except ToolError:  # there is none
        listed = b""
    known = {os.fsdecode(key) for key in listed.split(b"\0")}
    for child in children:
        key = f"submodule.{child.names[-1]}"
        if f"{key}.url" not in known:
            git("config", f"{key}.active", "true", git_dir=parent.git_dir)
            git("config", f"{key}.url", child.url, git_dir=parent.git_dir)
    return children


def _summary(errors: Sequence[ToolError]) -> str:
    lines = [str(error) for error in errors[:_SHOWN]]
    if len(errors) > _SHOWN:
        lines.append(f"and {len(errors) - _SHOWN} more repositories")
    return "\n".join([*lines, _ADVICE])
