"""patchgen.system.git: what git is given, what its failures become, and how it is stopped."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from support.waiting import ENOUGH, gone, until

from patchgen.errors import FileError, ToolError
from patchgen.system.git import Git, GitError, environment

if TYPE_CHECKING:
    from pathlib import Path


def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Git:
    """A program in the place of git."""
    path = tmp_path / "bin/git"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(path.parent), prepend=":")
    return Git()


def test_the_environment_keeps_ways_to_servers_only() -> None:
    given = {"GIT_DIR": "/x", "GIT_INDEX_FILE": "/x", "GIT_SSH_COMMAND": "ssh -4", "HOME": "/h",
             "GIT_CONFIG_GLOBAL": "/g", "GIT_TERMINAL_PROMPT": "1"}  # fmt: skip
    found = environment(given)
    assert "GIT_DIR" not in found
    assert "GIT_INDEX_FILE" not in found
    assert found["GIT_SSH_COMMAND"] == "ssh -4"
    assert found["GIT_CONFIG_GLOBAL"] == "/g"
    assert found["HOME"] == "/h"
    assert found["GIT_TERMINAL_PROMPT"] == "0"
    assert found["GIT_ASKPASS"] == ""


def test_a_failure_tells_what_git_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git = script(tmp_path, monkeypatch, "echo hint: x >&2; echo fatal: the reason >&2; exit 128")
    with pytest.raises(GitError) as caught:
        git("fetch", git_dir=str(tmp_path))
    assert caught.value.reason == "fatal: the reason"


def test_a_full_disk_is_an_error_of_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = script(tmp_path, monkeypatch, "echo fatal: write: No space left on device >&2; exit 128")
    with pytest.raises(FileError, match="make room"):
        git("fetch", git_dir=str(tmp_path))


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no directory"):
        Git()("fetch", git_dir=str(tmp_path / "nothing"))


def test_stopping_ends_git_and_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "started"
    text = f'sleep 600 & echo "$!" >"{started}.part"; mv "{started}.part" "{started}"; wait'
    git = script(tmp_path, monkeypatch, text)
    failures = []

    def call() -> None:
        try:
            git("fetch", git_dir=str(tmp_path))
        except GitError as error:
            failures.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    until(started.exists)
    git.stop()
    thread.join(ENOUGH)
    assert len(failures) == 1
    assert gone(started.read_text().strip())
    with pytest.raises(GitError, match="stopped"):
        git("fetch", git_dir=str(tmp_path))
