"""Runs git for downloads: several at once, never with a question, and stopped when we are."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from patchgen.errors import FileError, ToolError
from patchgen.system.process import NoAnswer, Program, capture, without_git

if TYPE_CHECKING:
    from collections.abc import Mapping

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
_GRACE = 5.0  # seconds that git has to take its locks away


class GitError(ToolError):
    """git failed; `reason` is what it said."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


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


class Git:
    """Runs git from any thread, until it is stopped.

    Without a terminal ssh cannot ask. `guard` is a locked descriptor that each inherits, so that
    the lock tells of those that a killed run has left.
    """

    def __init__(self, guard: int | None = None) -> None:
        self._environ = environment(os.environ)
        self._passed = () if guard is None else (guard,)
        self._stop = threading.Event()

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
        if any(sign in line for line in lines for sign in _NO_SPACE):
            raise FileError(f"{work_tree or git_dir}: {reason}; make room and start again: "
                            "what is complete is kept")  # fmt: skip
        raise GitError(f"git {arguments[0]} in {work_tree or git_dir}: {reason}", reason)

    def stop(self) -> None:
        """Ends every git that runs, and starts no more."""
        self._stop.set()
