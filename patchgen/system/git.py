"""Queries repositories, and runs git: several processes in parallel, never interactive."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchgen.errors import FileError, ToolError
from patchgen.system import files, git_objects, paths
from patchgen.system.process import LIMIT, NoAnswer, Program, capture
from patchgen.system.program import without_git

MODULES = ".gitmodules"
"""File of a commit that lists its submodules."""

# Variables that say how to reach a server. Other GIT_* name another repository.
_KEPT = ("GIT_ALLOW_PROTOCOL", "GIT_CONFIG_", "GIT_CURL_", "GIT_EXEC_PATH", "GIT_HTTP_",
         "GIT_PROXY_", "GIT_SSH", "GIT_SSL_", "GIT_TRACE")  # fmt: skip

# Settings that the user's configuration may not change, since bytes and downloads depend on them.
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
    "gc.auto=0",  # a garbage collection in the background would outlive this process
    "http.lowSpeedLimit=1000",  # bytes per second, for a minute, so dead connections end
    "http.lowSpeedTime=60",
    "init.defaultRefFormat=files",  # HEAD is read without git
    "maintenance.auto=false",
    "protocol.file.allow=always",
    "protocol.version=2",  # servers with it serve any commit by id
    "submodule.recurse=false",
    "transfer.fsckObjects=false",
)
_CONTENT = b"switchml"
_SHOWN = 60  # characters
_NO_SPACE = ("No space left on device", "Out of diskspace", "Disk quota exceeded", "File too large")
_ROOM = 1 << 20  # bytes; git does not report for every file that the disk is full
_TAIL = 5  # lines
_GRACE = 5.0  # seconds for git to remove its locks
_GITLINK = b"160000"
_PARTIAL = r"^(extensions\.partialclone|remote\..*\.promisor)$"
_NAMED = r"^submodule\..*\.(path|url)$"


class GitError(ToolError):
    """git failed; `reason` is its message."""


@dataclass(frozen=True)
class Head:
    """HEAD of a repository; `problem` says why it cannot be read."""

    commit: str | None
    problem: str | None = None


@dataclass(frozen=True)
class Submodule:
    """Submodule of a commit. Name and url are empty where .gitmodules lacks them."""

    path: str
    commit: str
    name: str
    url: str


def head(root: str) -> Head | None:
    """Return HEAD of the repository at `root`; None if `root` is not the top of a work tree.

    Runs git only for reftables. Configuration and GIT_DIR are ignored.
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
    """Return the commit of HEAD, through GitPython.

    GitPython's own class also finds repositories through environment variables.
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
    """Return the commit of HEAD, through git, also in a directory of another user."""
    words = ["-c", "safe.directory=*", f"--git-dir={directory}", "rev-parse", "--verify", "HEAD"]
    program = Program(["git", *words], directory, make_environ(os.environ), for_git=True)
    ended = capture(program, limit=LIMIT)
    if ended.code:
        raise ToolError(ended.err.decode(errors="replace").strip())
    return ended.out.decode().strip()


def _common_directory(git_dir: str) -> str:
    """Return the directory of references that all work trees share."""
    try:
        with open(os.path.join(git_dir, "commondir"), "rb") as file:
            return os.path.normpath(os.path.join(git_dir, os.fsdecode(file.read().strip())))
    except FileNotFoundError:
        return git_dir


def directory_of(work_tree: str) -> str | None:
    """Return the git directory of a work tree; None if it is missing.

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
    """Return whether a path is a work tree or a bare repository."""
    bare = os.path.isfile(os.path.join(path, "HEAD")) and os.path.isdir(
        os.path.join(path, "objects")
    )
    return bare or os.path.exists(os.path.join(path, ".git"))


def make_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return git's environment: the user's access to servers, no prompts, English messages."""
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
    """Let git hash an object, since its later answers are trusted."""
    # The current directory may be a repository that git cannot read.
    program = Program(["git", "hash-object", "--stdin"], "/", environ, _CONTENT, for_git=True)
    ended = capture(program, limit=LIMIT)
    output = (ended.out + ended.err).decode(errors="replace").strip()
    if ended.code or ended.out.decode(errors="replace").strip() != git_objects.blob_id(_CONTENT):
        raise ToolError(
            f"git: hash-object gives {output[:_SHOWN]!r}, as no git does; "
            "see which program `git` is on PATH"
        )


class Git:
    """Runs git from any thread, until it is stopped. ssh without a terminal cannot prompt.

    Each git inherits the locked descriptor `guard`. So the lock shows processes that outlived a
    kill.
    """

    def __init__(self, guard: int | None = None) -> None:
        self._environ = make_environ(os.environ)
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
        """Run one command, with additional configuration, and return its standard output.

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
            raise GitError("git: stopped", reason="stopped") from error
        if ended.code == 0:
            return ended.out
        lines = ended.err.decode(errors="replace").splitlines()
        messages = [line for line in lines if line.startswith(("fatal:", "error:", "remote:"))]
        reason = "; ".join((messages or lines)[-_TAIL:]) or f"return code {ended.code}"
        if any(sign in line for line in lines for sign in _NO_SPACE) or files.room(git_dir) < _ROOM:
            raise FileError(f"{work_tree or git_dir}: {reason}; make room and start again: "
                            "what is complete is kept")  # fmt: skip
        raise GitError(f"git {arguments[0]} in {work_tree or git_dir}: {reason}", reason=reason)

    def epoch(self, commit: str, git_dir: str) -> int:
        """Return the time of a commit in seconds since 1970."""
        answer = self._ask(git_dir, "rev-list", "--max-count=1", "--timestamp", commit)
        return int(answer.split()[0])

    def lacking(self, commit: str, git_dir: str) -> set[str] | None:
        """Return the ids of a commit's missing objects; None if the commit itself is missing."""
        try:
            listed = self._ask(git_dir, "rev-list", "--objects", "--no-walk", "--missing=print",
                               commit)  # fmt: skip
        except GitError:
            return None
        found = {line[1:].decode() for line in listed.splitlines() if line.startswith(b"?")}
        return None if commit in found else found  # newer versions of git then do not fail

    def describe_part(self, path: str) -> str:
        """Return the kind of a repository that may lack objects; empty if it has all."""
        git_dir = directory_of(path) or path
        try:
            partial = self._ask(git_dir, "config", "--get-regexp", _PARTIAL)
        except GitError:  # no such setting
            partial = b""
        if partial:
            return "partial clone (git clone --filter)"
        shallow = os.path.join(_common_directory(git_dir), "shallow")
        return "shallow clone (git clone --depth)" if os.path.exists(shallow) else ""

    def objects(self, names: Sequence[str], git_dir: str) -> dict[str, bytes]:
        """Return the contents of existing objects by id, without verifying them."""
        request = "".join(f"{name}\n" for name in names).encode("ascii")
        return git_objects.batch(names, self._ask(git_dir, "cat-file", "--batch", stdin=request))

    def file(self, commit: str, path: str, git_dir: str) -> bytes:
        """Return the content of a file of a commit."""
        return self._ask(git_dir, "cat-file", "blob", f"{commit}:{path}")

    def submodules(self, commit: str, git_dir: str) -> list[Submodule]:
        """Return the submodules of a commit, as listed in its own .gitmodules."""
        listed = self._ask(git_dir, "ls-tree", "-r", "-z", "--full-tree", commit)
        entries = [entry.partition(b"\t") for entry in listed.split(b"\0")]
        links = {os.fsdecode(path): about.split()[2].decode() for about, _, path in entries
                 if about.startswith(_GITLINK)}  # fmt: skip
        if not links:
            return []
        blob = f"--blob={commit}:{MODULES}"
        answer = self._ask(git_dir, "config", "-z", blob, "--get-regexp", _NAMED)
        names, urls = {}, {}
        for entry in filter(None, answer.split(b"\0")):
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
        """Run git without a work tree, since the one that a git directory names may be missing."""
        return self(*arguments, git_dir=git_dir, work_tree=git_dir, stdin=stdin)

    def stop(self) -> None:
        """End every git that is running, and start no more."""
        self._stop.set()
