"""patchgen.system.git: what git is given, what its failures become, and how it is stopped."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.trees import git as run_git
from support.waiting import ENOUGH, has_ended, until

from patchgen.errors import FileError, ToolError
from patchgen.system import git_objects
from patchgen.system.git import Git, GitError, Head, Submodule, head, make_environ

REAL = shutil.which("git")
Script = Callable[[str], Git]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in the place of git, which is yet to be written."""
    path = tmp_path / "bin/git"
    path.parent.mkdir()
    path.touch(0o755)
    monkeypatch.setenv("PATH", str(path.parent), prepend=":")
    return path


@pytest.fixture
def script(program: Path) -> Script:
    """Writes the program, which shows only what it does to repositories."""

    def write(text: str) -> Git:
        proof = f'[ "$1" != hash-object ] || exec {REAL} "$@"'
        program.write_text(f"#!/bin/sh\n{proof}\n{text}\n")
        return Git()

    return write


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo git version 2.11.0", "'git version 2.11.0'"),
        ("echo broken >&2; exit 1", "'broken'"),
        ("yes | head -c 1000000", "'y"),
        ("", "''"),
    ],
)
def test_a_program_that_is_no_git(program: Path, text: str, message: str) -> None:
    program.write_text(f"#!/bin/sh\n{text}\n")
    with pytest.raises(ToolError, match=f"^git: hash-object gives {message}.*as no git does"):
        Git()


def test_the_environment_keeps_ways_to_servers_only() -> None:
    given = {"GIT_DIR": "/x", "GIT_INDEX_FILE": "/x", "GIT_SSH_COMMAND": "ssh -4", "HOME": "/h",
             "GIT_CONFIG_GLOBAL": "/g", "GIT_TERMINAL_PROMPT": "1"}  # fmt: skip
    found = make_environ(given)
    assert "GIT_DIR" not in found
    assert "GIT_INDEX_FILE" not in found
    assert found["GIT_SSH_COMMAND"] == "ssh -4"
    assert found["GIT_CONFIG_GLOBAL"] == "/g"
    assert found["HOME"] == "/h"
    assert found["GIT_TERMINAL_PROMPT"] == "0"
    assert found["GIT_ASKPASS"] == ""


def test_references_that_only_git_reads(tmp_path: Path, program: Path, script: Script) -> None:
    """As `git init --ref-format=reftable` leaves them; the program answers as git does then."""
    git_dir = tmp_path / "tree/.git"
    (git_dir / "reftable").mkdir(parents=True)
    (git_dir / "HEAD").write_text("ref: refs/heads/.invalid\n")
    answer = f'case "$*" in *"--git-dir={git_dir} rev-parse --verify HEAD") echo {"1" * 40};; '
    script(answer + "*) exit 1;; esac")
    assert head(str(tmp_path / "tree")) == Head("1" * 40)
    program.write_text("#!/bin/sh\necho fatal: too old >&2; exit 128\n")
    assert head(str(tmp_path / "tree")) == Head(None, "fatal: too old")


def test_a_failure_has_the_words_of_git(tmp_path: Path, script: Script) -> None:
    git = script("echo hint: x >&2; echo fatal: the reason >&2; exit 128")
    with pytest.raises(GitError) as caught:
        git("fetch", git_dir=str(tmp_path))
    assert caught.value.reason == "fatal: the reason"


def test_a_full_disk_is_an_error_of_the_file_system(
    tmp_path: Path, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git does not say of every file why it could not write it."""
    git = script("echo fatal: write: No space left on device >&2; exit 128")
    with pytest.raises(FileError, match="make room"):
        git("fetch", git_dir=str(tmp_path))
    git = script("echo \"fatal: couldn't write 'HEAD.lock'\" >&2; exit 128")
    with pytest.raises(GitError):
        git("fetch", git_dir=str(tmp_path))
    monkeypatch.setattr("patchgen.system.files.room", lambda _: 4096)
    with pytest.raises(FileError, match="make room"):
        git("fetch", git_dir=str(tmp_path))


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no directory"):
        Git()("fetch", git_dir=str(tmp_path / "nothing"))


def test_stopping_ends_git_and_what_it_started(tmp_path: Path, script: Script) -> None:
    started = tmp_path / "started"
    text = f'sleep 600 & echo "$!" >"{started}.part"; mv "{started}.part" "{started}"; wait'
    git = script(text)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(git, "fetch", git_dir=str(tmp_path))
        until(started.exists)
        git.stop()
        assert isinstance(call.exception(ENOUGH), GitError)
    assert has_ended(started.read_text().strip())
    with pytest.raises(GitError, match="stopped"):
        git("fetch", git_dir=str(tmp_path))


# ---- what is asked about repositories


@pytest.fixture
def repository(tmp_path: Path, isolated: Path) -> Path:
    assert isolated
    root = tmp_path / "repository"
    root.mkdir()
    run_git(root, "init", "-q", "-b", "main")
    (root / "file.txt").write_text("text\n")
    (root / ".gitmodules").write_text(
        '[submodule "a name"]\n\tpath = "sub dir/é"\n\turl = ../é.git\n'
        '[submodule "gone"]\n\tpath = gone\n\turl = https://h/gone\n'
    )
    run_git(root, "add", "-A")
    for path in ("sub dir/é", "nameless"):
        run_git(root, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},{path}")
    run_git(root, "commit", "-qm", "one")
    return root


def test_submodules_are_what_the_commit_says(repository: Path) -> None:
    commit = run_git(repository, "rev-parse", "HEAD")
    (repository / ".gitmodules").write_text("of the work tree")
    found = {one.path: one for one in Git().submodules(commit, str(repository / ".git"))}
    assert found == {
        "sub dir/é": Submodule("sub dir/é", "1" * 40, "a name", "../é.git"),
        "nameless": Submodule("nameless", "1" * 40, "", ""),
    }


def test_objects_that_are_there_are_given_whole(repository: Path) -> None:
    git_dir = str(repository / ".git")
    names = {}
    for text in ("text\n", "", "\n missing\n", "a" * 70000):
        (repository / "file.txt").write_text(text)
        names[run_git(repository, "hash-object", "-w", "file.txt")] = text.encode()
    found = Git().objects(["0" * 40, *names, "2" * 40], git_dir)
    assert found == names
    assert {git_objects.object_id("blob", content) for content in found.values()} == {*names}


def test_what_a_repository_lacks(repository: Path) -> None:
    git_dir, commit = str(repository / ".git"), run_git(repository, "rev-parse", "HEAD")
    assert Git().lacking(commit, git_dir) == set()
    assert Git().lacking("0" * 40, git_dir) is None
    blob = run_git(repository, "rev-parse", "HEAD:file.txt")
    (repository / ".git/objects" / blob[:2] / blob[2:]).unlink()
    assert Git().lacking(commit, git_dir) == {blob}
    with pytest.raises(GitError):
        Git().file(commit, "file.txt", git_dir)
    assert b"gone" in Git().file(commit, ".gitmodules", git_dir)


def test_a_tree_and_a_commit_are_read_as_git_made_them(repository: Path) -> None:
    commit = run_git(repository, "rev-parse", "HEAD")
    read = Git().objects([commit], str(repository / ".git"))[commit]
    assert git_objects.object_id("commit", read) == commit
    tree = git_objects.tree_of(read)
    assert tree == run_git(repository, "rev-parse", "HEAD^{tree}")
    content = Git().objects([tree], str(repository / ".git"))[tree]
    assert git_objects.object_id("tree", content) == tree
    lines = [line.split(maxsplit=3) for line in run_git(
        repository, "-c", "core.quotePath=false", "ls-tree", "HEAD").splitlines()]  # fmt: skip
    found = [[one.mode.zfill(6), one.id, one.name] for one in git_objects.entries(content)]
    assert found == [[mode, name, path] for mode, _, name, path in lines]
    assert [one.name for one in git_objects.entries(content) if one.is_tree] == ["sub dir"]


def test_a_repository_whose_work_tree_is_gone_can_be_asked(repository: Path) -> None:
    commit = run_git(repository, "rev-parse", "HEAD")
    moved = repository.rename(repository.with_name("moved"))
    run_git(moved, "config", "core.worktree", "/nowhere")
    git = Git()
    assert git.file(commit, "file.txt", str(moved / ".git")) == b"text\n"
    assert git.epoch(commit, str(moved / ".git")) > 1_500_000_000
