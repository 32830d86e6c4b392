"""Brings the repositories that a tree lacks: the tree's own, then submodules several at once."""

from __future__ import annotations

import concurrent.futures
import contextlib
import glob
import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.core.source.fetch import fetch
from patchgen.core.source.request import leave_out
from patchgen.core.source.staging import place, read_mark, write_mark
from patchgen.core.source.survey import survey
from patchgen.errors import ToolError
from patchgen.system import paths, threads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchgen.core.source.places import Places
    from patchgen.core.source.repository import Repository
    from patchgen.core.source.request import SourceRequest
    from patchgen.core.source.survey import Survey
    from patchgen.system.git import Git

_LOGGER = logging.getLogger(__name__)
_LEFT_BY_KILLED = ("*.lock", "refs/**/*.lock", "objects/pack/*.lock", "objects/pack/tmp_*")
_AT_ONCE = 4  # repositories
_SHOWN = 5  # repositories that could not be had
_ADVICE = (
    "what is complete is kept, so start it again; without a network give --mirror (clones in "
    "a directory, a clone, or a base URL) or --reference (a clone), or set "
    "url.<base>.insteadOf in git's configuration"
)


def fill(git: Git, root: Repository, found: Survey, wanted: SourceRequest) -> dict[str, str]:
    """Brings all that is absent, adds it to the survey, and returns addresses by path.

    A repository is complete before those in it are known: they come level by level.

    Raises:
        ToolError: some could not be had; the others are complete.
        FileError: the disk is full.
        TreeError: a file is in the way; it was not touched.
    """
    if read_mark(root) is not None:
        for repository in found.present:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(repository.inside("config.lock"))  # of a git that was killed
    write_mark(root)
    fetched: dict[str, str] = {}
    failed: list[ToolError] = []
    count = _Count()

    level = found
    while True:
        for parent in {**level.wanted, **level.unwanted}:
            _register(git, parent, level)
        absent = level.absent
        if not absent:
            break
        count.total += len(absent)
        if root in absent:
            _LOGGER.info("fetching PyTorch %s", root.commit[:12])
        brought, lost = _bring_each(git, wanted.places, absent, count)
        failed += lost.values()
        fetched.update({paths.from_native(one.path): source
                        for one, source in brought.items() if source is not None})  # fmt: skip
        level = survey(git, [*brought], wanted).require_sound(root)
        for repository in {*brought}.intersection(level.absent):
            raise ToolError(f"{repository.title}: git reports no error, but has not checked it out")
        found.add(level)
    if failed:
        lines = [str(error) for error in failed[:_SHOWN]]
        if len(failed) > _SHOWN:
            lines.append(f"and {len(failed) - _SHOWN} more repositories")
        raise ToolError("\n".join([*lines, _ADVICE]))
    return fetched


def _bring_each(
    git: Git, places: Places, absent: Sequence[Repository], count: _Count
) -> tuple[dict[Repository, str | None], dict[Repository, ToolError]]:
    """Brings repositories, several at once; returns where they came from, and the failures.

    Raises:
        FileError: and whatever else ends the work; nothing is running then.
    """
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        running = {pool.submit(bring, git, places, one): one for one in absent}
        done: dict[Repository, str | None] = {}
        failed: dict[Repository, ToolError] = {}
        try:
            for future in threads.as_completed(running):
                repository = running[future]
                try:
                    done[repository] = future.result()
                except ToolError as error:
                    failed[repository] = error
                else:
                    count.tell(repository, done[repository])
        except BaseException:
            git.stop()
            pool.shutdown(cancel_futures=True)
            raise
    return done, failed


@dataclass
class _Count:
    """Count of repositories that are done, of those that are known to be needed."""

    done: int = 0
    total: int = 0

    def tell(self, repository: Repository, source: str | None) -> None:
        self.done += 1
        origin = f"from {source}" if source else "was fetched before"
        _LOGGER.info("[%d/%d] %s %s %s", self.done, self.total, repository.printable,
                     repository.commit[:12], origin)  # fmt: skip


def bring(git: Git, places: Places, repository: Repository) -> str | None:
    """Fetches what is missing and puts it into its place. None: nothing had to be fetched."""
    _prepare(git, repository)
    source = None
    if git.lacking(repository.commit, repository.git_dir) != set():
        source = fetch(git, repository.git_dir, repository, places)
    place(git, repository)
    return source


def _prepare(git: Git, repository: Repository) -> None:
    """Makes the git directory, or takes away what a killed git left in it."""
    os.makedirs(repository.git_dir, exist_ok=True)
    os.makedirs(repository.work_tree, exist_ok=True)
    for pattern in _LEFT_BY_KILLED:
        for path in glob.glob(
            os.path.join(glob.escape(repository.git_dir), pattern), recursive=True
        ):
            os.unlink(path)
    git("init", "-q", "--template=", "--object-format=sha1",
        git_dir=repository.git_dir, work_tree=repository.work_tree)  # fmt: skip
    settings = {"remote.origin.url": repository.url}
    if repository.path:
        settings["core.worktree"] = os.path.relpath(repository.work_tree, repository.git_dir)
    for name, value in settings.items():
        git("config", name, value, git_dir=repository.git_dir)


def _register(git: Git, parent: Repository, found: Survey) -> None:
    """Tells the git of a repository which submodules it is to have, and which not."""
    for name in found.unwanted.get(parent, ()):
        leave_out(git, parent, name)
    if wanted := found.wanted.get(parent):
        git("submodule", "-q", "init", "--", *wanted,
            git_dir=parent.git_dir, work_tree=parent.work_tree)  # fmt: skip
