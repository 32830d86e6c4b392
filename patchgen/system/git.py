"""Runs git for downloads: several at once, never with a question, and stopped when we are."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from typing import TYPE_CHECKING

from patchgen.errors import FileError, ToolError
from patchgen.system import process

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
    "maintenance.auto=false",
    "protocol.file.allow=always",
    "protocol.version=2",  # where a server knows it, any commit may be asked for by its id
    "submodule.recurse=false",
    "transfer.fsckObjects=false",
)
_NO_SPACE = ("No space left on device", "Out of diskspace", "Disk quota exceeded", "File too large")
_TAIL = 5  # lines


class GitError(ToolError):
    """git failed; `reason` is what it said."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of git: the user's ways to servers, no prompts, messages in English."""
    kept = {name: value for name, value in environ.items() if name.startswith(_KEPT)}
    return {
        **process.without_git(environ),
        **kept,
        "GIT_ASKPASS": "",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
        "SSH_ASKPASS_REQUIRE": "never",
    }


class Git:
    """Runs git from any thread, until it is stopped.

    Every git has a session of its own: without a terminal ssh cannot ask, and git's helpers can be
    ended with it. `guard` is a locked descriptor that each inherits, so that the lock tells of
    those that a killed run has left.
    """

    def __init__(self, guard: int | None = None) -> None:
        self._environ = environment(os.environ)
        self._pass = () if guard is None else (guard,)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False
        self._lock = threading.Lock()

    def __call__(
        self,
        *arguments: str,
        git_dir: str,
        work_tree: str | None = None,
        stdin: bytes = b"",
    ) -> bytes:
        """Runs one command and returns its standard output.

        Raises:
            GitError: its return code is not 0, or it was stopped.
            FileError: the disk is full.
            ToolError: git is missing.
        """
        places = [f"--git-dir={git_dir}", *([f"--work-tree={work_tree}"] if work_tree else [])]
        fixed = [word for setting in _FIXED for word in ("-c", setting)]
        with self._started(["git", *places, *fixed, *arguments], work_tree or git_dir) as running:
            output, errors = running.communicate(stdin)
        if running.returncode == 0:
            return output
        lines = errors.decode(errors="replace").splitlines()
        told = [line for line in lines if line.startswith(("fatal:", "error:", "remote:"))]
        reason = "; ".join((told or lines)[-_TAIL:]) or f"return code {running.returncode}"
        if any(sign in line for line in lines for sign in _NO_SPACE):
            raise FileError(f"{work_tree or git_dir}: {reason}; make room and start again: "
                            "what is complete is kept")  # fmt: skip
        raise GitError(f"git {arguments[0]} in {work_tree or git_dir}: {reason}", reason)

    @contextlib.contextmanager
    def _started(self, command: Sequence[str], cwd: str) -> Iterator[subprocess.Popen[bytes]]:
        with self._lock:
            if self._stopped:
                raise GitError("git: stopped", "stopped")
            try:
                running = subprocess.Popen(
                    command, cwd=cwd, env=self._environ, pass_fds=self._pass,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                if not os.path.isdir(cwd):
                    raise ToolError(f"git: cannot run in {cwd}: no directory") from error
                raise ToolError(f"git: {error.strerror}; is it installed and on PATH?") from error
            self._running.add(running)
        try:
            with running:
                try:
                    yield running
                except BaseException:
                    _end(running)
                    raise
        finally:
            with self._lock:
                self._running.discard(running)

    def stop(self) -> None:
        """Ends every git that runs, and starts no more."""
        with self._lock:
            self._stopped = True
            for running in self._running:
                _end(running)


def _end(running: subprocess.Popen[bytes]) -> None:
    if running.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGTERM)
