"""Asks about repositories, and runs git: several at once, never with a question."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchgen.errors import FileError, ToolError
from patchgen.system import files, objects, paths
from patchgen.system.process import LIMIT, NoAnswer, Program, capture
from patchgen.system.program import without_git

MODULES = ".gitmodules"
"""The file of a commit that names its submodules."""

# Of GIT_*, only what says how to reach a server. The rest names another repository.
_KEPT = ("GIT_ALLOW_PROTOCOL", "GIT_CONFIG_", "GIT_CURL_", "GIT_EXEC_PATH", "GIT_HTTP_",
         "GIT_PROXY_", "GIT_SSH", "GIT_SSL_", "GIT_TRACE")  # fmt: skip

# What the user's configuration may not change: the bytes of the tree, and what a download does.
# Addresses, proxies, certificates and credentials stay the user's.
_FIXED = (
    "color.ui=false",
    "core.attributesFile=/dev/null",
    "core.autocrlf=false",
    "core.bare=false",
    "core.eol=lf",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.ignoreStat=false",
    "core.safecrlf=false",
    "core.sparseCheckout=false",
    "core.symlinks=true",
    "fetch.fsckObjects=false",  # old commits of submodules do not pass; their ids are pinned
    "fetch.prune=false",
    "fetch.pruneTags=false",
    "fetch.recurseSubmodules=false",
    "fetch.writeCommitGraph=false",
    "gc.auto=0",  # a collection in the background would outlive us
    "http.lowSpeedLimit=1000",  # bytes per second, for a minute: a dead connection ends
    "http.lowSpeedTime=60",
    "init.defaultRefFormat=files",  # HEAD is read without git
    "maintenance.auto=false",
    "protocol.file.allow=always",
    "protocol.version=2",  # where a server knows it, any commit may be asked for by its id
    "submodule.recurse=false",
    "transfer.fsckObjects=false",
)
_CONTENT = b"switchml"
_SHOWN = 60  # characters
_NO_SPACE = ("No space left on device", "Out of diskspace", "Disk quota exceeded", "File too large")
_ROOM = 1 << 20  # bytes; git does not say of every file why it could not write it
_TAIL = 5  # lines
_GRACE = 5.0  # seconds that git has to take its locks away
_GITLINK = b"160000"
_NAMED = r"^submodule\..*\.(path|url)$"


class GitError(ToolError):
    """git failed; `reason` is what it said."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Head:
    """HEAD of the repository whose work tree is the tree; `problem` where it cannot be read."""

    commit: str | None
    problem: str | None = None


@dataclass(frozen=True)
class Submodule:
    """A repository that a commit has at a path. Name and url are empty where it says none."""

    path: str
    commit: str
    name: str
    url: str


def head(root: str) -> Head | None:
    """HEAD of the repository at `root`; None where `root` is not the top of a work tree.

    Runs no git, unless the references are a reftable. Neither configuration nor GIT_DIR counts.
    """
    native = os.fsdecode(paths.encode(root))
    if not os.path.lexists(os.path.join(native, ".git")):
        return None
    git_dir = directory_of(native)
    if git_dir is None:
        return Head(None, f"{native}/.git: names no repository")
    try:
        reftable = os.path.isdir(os.path.join(_common_directory(git_dir), "reftable"))
        return Head((_ask_head if reftable else _read_head)(git_dir))
    except ToolError as error:
        return Head(None, str(error))
    except Exception:  # noqa: BLE001  # any damage of a repository is reported, never fatal
        return Head(None, f"{git_dir}/HEAD: names no commit")


def _read_head(directory: str) -> str:
    """The commit of HEAD, by GitPython.

    Its own class finds the directories of a repository by variables of the environment as well.
    """
    import git

    class Repository(git.Repo):
        def __init__(self) -> None:
            self.git_dir = directory

        @property
        def common_dir(self) -> str:
            return _common_directory(directory)

    return git.SymbolicReference.dereference_recursive(Repository(), "HEAD")


def _ask_head(directory: str) -> str:
    """The commit of HEAD, by git, also in a directory of another user."""
    words = ["-c", "safe.directory=*", f"--git-dir={directory}", "rev-parse", "--verify", "HEAD"]
    asked = Program(["git", *words], directory, environment(os.environ), for_git=True)
    ended = capture(asked, limit=LIMIT)
    if ended.code:
        raise ToolError(ended.err.decode(errors="replace").strip())
    return ended.out.decode().strip()


def _common_directory(git_dir: str) -> str:
    """Directory of the references that all work trees of a repository share."""
    try:
        with open(os.path.join(git_dir, "commondir"), "rb") as file:
            return os.path.normpath(os.path.join(git_dir, os.fsdecode(file.read().strip())))
    except FileNotFoundError:
        return git_dir


def directory_of(work_tree: str) -> str | None:
    """The git directory of a work tree, None where it has none or what it names is not there.

    Paths are as `os` takes them.
    """
    link = os.path.join(work_tree, ".git")
    if os.path.isdir(link):
        return link
    try:
        with open(link, "rb") as file:
            line = file.readline().strip()
    except OSError:
        return None
    target = os.path.normpath(os.path.join(work_tree, os.fsdecode(line[len(b"gitdir: ") :])))
    return target if line.startswith(b"gitdir: ") and os.path.isdir(target) else None


def is_repository(path: str) -> bool:
    """True where there is a work tree or a bare repository."""
    bare = os.path.isfile(os.path.join(path, "HEAD")) and os.path.isdir(
        os.path.join(path, "objects")
    )
    return bare or os.path.exists(os.path.join(path, ".git"))


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of git: the user's ways to servers, no prompts, messages in English."""
    kept = {name: value for name, value in environ.items() if name.startswith(_KEPT)}
    return {
        **without_git(environ),
        **kept,
        "GIT_ASKPASS": "",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
        "SSH_ASKPASS_REQUIRE": "never",
    }


def _prove(environ: Mapping[str, str]) -> None:
    """Lets git name an object, since all that it says later is believed.

    Raises:
        ToolError: git is missing, or gives another answer.
    """
    # A directory of the user's may be a repository that git cannot read.
    asked = Program(["git", "hash-object", "--stdin"], "/", environ, _CONTENT, for_git=True)
    ended = capture(asked, limit=LIMIT)
    said = (ended.out + ended.err).decode(errors="replace").strip()
    if ended.code or ended.out.decode(errors="replace").strip() != objects.blob_id(_CONTENT):
        raise ToolError(
            f"git: hash-object gives {said[:_SHOWN]!r}, as no git does; "
            "see which program `git` is on PATH"
        )


class Git:
    """Runs git from any thread, until it is stopped. Without a terminal ssh cannot ask.

    `guard` is a locked descriptor that each inherits: the lock tells of those left by a kill.
    """

    def __init__(self, guard: int | None = None) -> None:
        self._environ = environment(os.environ)
        _prove(self._environ)
        self._passed = () if guard is None else (guard,)
        self._stop = threading.Event()

    def __call__(
        self,
        *arguments: str,
        git_dir: str,
        work_tree: str | None = None,
        stdin: bytes = b"",
        config: Mapping[str, str] | None = None,
    ) -> bytes:
        """Runs one command, with further configuration, and returns its standard output.

        Raises:
            GitError: its return code is not 0, or it was stopped.
            FileError: the disk is full.
            ToolError: git is missing.
        """
        places = [f"--git-dir={git_dir}", *([f"--work-tree={work_tree}"] if work_tree else [])]
        settings = [*_FIXED, *(f"{name}={value}" for name, value in (config or {}).items())]
        fixed = [word for setting in settings for word in ("-c", setting)]
        program = Program(
            ["git", *places, *fixed, *arguments], work_tree or git_dir, self._environ, stdin,
            passed=self._passed, for_git=True, grace=_GRACE,
        )  # fmt: skip
        try:
            ended = capture(program, limit=None, stop=self._stop)
        except NoAnswer as error:
            raise GitError("git: stopped", "stopped") from error
        if ended.code == 0:
            return ended.out
        lines = ended.err.decode(errors="replace").splitlines()
        told = [line for line in lines if line.startswith(("fatal:", "error:", "remote:"))]
        reason = "; ".join((told or lines)[-_TAIL:]) or f"return code {ended.code}"
        if any(sign in line for line in lines for sign in _NO_SPACE) or files.room(git_dir) < _ROOM:
            raise FileError(f"{work_tree or git_dir}: {reason}; make room and start again: "
                            "what is complete is kept")  # fmt: skip
        raise GitError(f"git {arguments[0]} in {work_tree or git_dir}: {reason}", reason)

    def epoch(self, commit: str, git_dir: str) -> int:
        """When a commit was made, in seconds since 1970."""
        told = self._ask(git_dir, "rev-list", "--max-count=1", "--timestamp", commit)
        return int(told.split()[0])

    def lacking(self, commit: str, git_dir: str) -> set[str] | None:
        """The ids of what a repository lacks of a commit's files; None: of the commit itself."""
        try:
            listed = self._ask(git_dir, "rev-list", "--objects", "--no-walk", "--missing=print",
                               commit)  # fmt: skip
        except GitError:
            return None
        found = {line[1:].decode() for line in listed.splitlines() if line.startswith(b"?")}
        return None if commit in found else found  # newer ones do not fail then

    def objects(self, names: Sequence[str], git_dir: str) -> dict[str, bytes]:
        """The contents of those objects that are there, by their ids. Nothing is verified."""
        asked = "".join(f"{name}\n" for name in names).encode("ascii")
        return objects.batch(names, self._ask(git_dir, "cat-file", "--batch", stdin=asked))

    def file(self, commit: str, path: str, git_dir: str) -> bytes:
        """The content of a file of a commit."""
        return self._ask(git_dir, "cat-file", "blob", f"{commit}:{path}")

    def submodules(self, commit: str, git_dir: str) -> list[Submodule]:
        """The submodules of a commit, with what its own .gitmodules says of them."""
        listed = self._ask(git_dir, "ls-tree", "-r", "-z", "--full-tree", commit)
        entries = [entry.partition(b"\t") for entry in listed.split(b"\0")]
        links = {os.fsdecode(path): about.split()[2].decode() for about, _, path in entries
                 if about.startswith(_GITLINK)}  # fmt: skip
        if not links:
            return []
        blob = f"--blob={commit}:{MODULES}"
        said = self._ask(git_dir, "config", "-z", blob, "--get-regexp", _NAMED)
        names, urls = {}, {}
        for entry in filter(None, said.split(b"\0")):
            key, _, value = os.fsdecode(entry).partition("\n")
            name, _, what = key[len("submodule.") :].rpartition(".")
            if what == "path":
                names[value] = name
            else:
                urls[name] = value
        return [
            Submodule(path, at, names.get(path, ""), urls.get(names.get(path, ""), ""))
            for path, at in links.items()
        ]

    def _ask(self, git_dir: str, *arguments: str, stdin: bytes = b"") -> bytes:
        """The work tree that a git directory names need not be there."""
        return self(*arguments, git_dir=git_dir, work_tree=git_dir, stdin=stdin)

    def stop(self) -> None:
        """Ends every git that runs, and starts no more."""
        self._stop.set()
