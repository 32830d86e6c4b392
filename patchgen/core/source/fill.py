"""Fetches the missing repositories of a tree: PyTorch first, then submodules in parallel."""

from __future__ import annotations

import concurrent.futures
import contextlib
import glob
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass

from patchgen.core.source.fetch import fetch
from patchgen.core.source.remotes import Remotes
from patchgen.core.source.repository import Repository
from patchgen.core.source.request import SourceRequest
from patchgen.core.source.staging import place, read_mark, write_mark
from patchgen.core.source.survey import Survey, survey
from patchgen.errors import ToolError
from patchgen.system import paths, threads
from patchgen.system.git import Git

_LOGGER = logging.getLogger(__name__)
_LEFT_BY_KILLED = ("*.lock", "refs/**/*.lock", "objects/pack/*.lock", "objects/pack/tmp_*")
_AT_ONCE = 4  # repositories
_SHOWN = 5  # failed repositories in a message
_ADVICE = (
    "what is complete is kept, so start it again; without a network give --mirror (clones in "
    "a directory, a clone, or a base URL) or --reference (a clone), or set "
    "url.<base>.insteadOf in git's configuration"
)


def fill(git: Git, root: Repository, found: Survey, wanted: SourceRequest) -> dict[str, str]:
    """Fetch all missing repositories, add them to the survey; return origins by path.

    Submodules of a repository are known only when it is complete, so they are fetched by levels.

    Raises:
        ToolError: some repositories could not be fetched; the others are complete.
        FileError: the disk is full.
        TreeError: a file is in the way; it was not touched.
    """
    if read_mark(root) is not None:
        for repository in found.present:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(repository.inside("config.lock"))  # left by a killed git
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
        brought, lost = _bring_each(git, wanted.remotes, absent, count)
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
    git: Git, remotes: Remotes, absent: Sequence[Repository], count: _Count
) -> tuple[dict[Repository, str | None], dict[Repository, ToolError]]:
    """Fetch repositories in parallel; return their origins, and the failures.

    All fetches have ended when this raises.
    """
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        running = {pool.submit(bring, git, remotes, one): one for one in absent}
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
    """Progress: number of repositories fetched, and number known so far."""

    done: int = 0
    total: int = 0

    def tell(self, repository: Repository, source: str | None) -> None:
        self.done += 1
        origin = f"from {source}" if source else "was fetched before"
        _LOGGER.info("[%d/%d] %s %s %s", self.done, self.total, repository.printable,
                     repository.commit[:12], origin)  # fmt: skip


def bring(git: Git, remotes: Remotes, repository: Repository) -> str | None:
    """Fetch and check out a repository; return its origin, or None if it was fetched before."""
    _prepare(git, repository)
    source = None
    if git.lacking(repository.commit, repository.git_dir) != set():
        source = fetch(git, repository.git_dir, repository, remotes)
    place(git, repository)
    return source


def _prepare(git: Git, repository: Repository) -> None:
    """Create the git directory, or remove what a killed git left in it."""
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
    """Record in git's configuration which submodules are wanted and which left out."""
    for name in found.unwanted.get(parent, ()):
        git("config", f"submodule.{name}.active", "false", git_dir=parent.git_dir)
    if wanted := found.wanted.get(parent):
        git("submodule", "-q", "init", "--", *wanted,
            git_dir=parent.git_dir, work_tree=parent.work_tree)  # fmt: skip
