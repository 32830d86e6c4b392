"""The source of the client library, fetched from repositories that the tests make."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support import client_source
from support.trees import git
from support.waiting import captured

from patchgen.core.library import archive
from patchgen.core.patch import diff
from patchgen.errors import FileError, ToolError, TreeError
from patchgen.extras.client import checkout

SOURCES = {
    path: text.encode()
    for path, text in client_source.FILES.items()
    if path.startswith(("dev_root/client_lib/src/", "dev_root/protos/"))
    and not path.endswith(".md")
}


@pytest.fixture
def made(tmp_path: Path) -> client_source.Repository:
    return client_source.make(tmp_path / "upstream")


def test_a_new_directory_and_the_same_again(made: client_source.Repository, tmp_path: Path) -> None:
    directory = tmp_path / "new" / "directory"
    origin = made.origin(tmp_path / "cache")
    assert checkout.obtain(str(directory), origin) == f"file://{made.root}"
    for path, text in client_source.FILES.items():
        assert (directory / path).read_text() == text
    assert git(directory, "rev-parse", "HEAD").strip() == made.commit
    assert checkout.obtain(str(directory), origin) is None


def test_what_is_there_is_never_changed(made: client_source.Repository, tmp_path: Path) -> None:
    origin = made.origin(tmp_path / "cache")
    edited = tmp_path / "edited"
    checkout.obtain(str(edited), origin)
    (edited / client_source.CONTEXT).write_text("mine\n")
    with pytest.raises(TreeError, match=r"context\.cc: expected the committed file, found local"):
        checkout.obtain(str(edited), origin)
    assert (edited / client_source.CONTEXT).read_text() == "mine\n"
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_text("mine\n")
    with pytest.raises(TreeError, match="other files there: file; give a new directory"):
        checkout.obtain(str(other), origin)
    assert [entry.name for entry in other.iterdir()] == ["file"]


def test_a_failure_leaves_nothing(made: client_source.Repository, tmp_path: Path) -> None:
    origin = replace(made.origin(tmp_path / "cache"), commit="1" * 40)
    (tmp_path / "there").mkdir()
    for name in ("new/directory", "there"):
        with pytest.raises(ToolError, match="not our ref"):
            checkout.obtain(str(tmp_path / name), origin)
    assert not (tmp_path / "new").exists()
    assert not [*(tmp_path / "there").iterdir()]
    git(tmp_path / "there", "init", "-q")
    with pytest.raises(TreeError, match=r"has no commit 1{40}, HEAD is without one; get it with: "):
        checkout.find_reference(str(tmp_path / "there"), "1" * 40)


def test_a_clone_at_another_commit(made: client_source.Repository, tmp_path: Path) -> None:
    origin = made.origin(tmp_path / "cache")
    client_source.commit(made.root, "more")
    with pytest.raises(TreeError, match=rf"not at {made.commit}; check that commit out"):
        checkout.obtain(str(made.root), origin)


def test_files_are_read_as_committed(made: client_source.Repository, tmp_path: Path) -> None:
    """From git's objects, which are verified: a work tree may have been built in."""
    (made.root / client_source.CONTEXT).write_text("edited\n")
    origin = made.origin(tmp_path / "cache")
    assert checkout.read_sources(origin) == SOURCES
    git(made.root, "checkout", "-q", "--", ".")
    made.root.rename(tmp_path / "gone")
    assert checkout.read_sources(origin) == SOURCES  # from the cache


def test_a_cache_that_cannot_be_made_says_what_names_another(
    made: client_source.Repository, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="Not a directory; name another cache with --cache or XDG"):
        checkout.read_sources(made.origin(tmp_path / "file" / "cache"))


SMALL_CLIENT = Path(__file__).parents[2] / "payload" / "small_client.py"


def build(made: client_source.Repository, *words: object, code: int = 0) -> str:
    """Builds the small library into `home` beside the clone, and returns what is said.

    No address but a file's is tried.
    """
    own = {"PYTHONPATH": str(SMALL_CLIENT.parents[1]), "GIT_ALLOW_PROTOCOL": "file"}
    done = captured(
        [sys.executable, str(SMALL_CLIENT), made.commit, "client", "build", *map(str, words),
         "-o", str(made.root.parent / "home"), "--cache", str(made.root.parent / "cache")],
        env={**os.environ, **own},
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stderr


def test_cmake_is_found_without_an_environment(
    made: client_source.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PATH")
    build(made, made.root)


def test_head_and_local_changes_are_named(made: client_source.Repository) -> None:
    head = client_source.commit(made.root, "more")
    (made.root / client_source.CONTEXT).write_text("mine\n")
    output = build(made, made.root)
    taken = f"; {made.commit} is taken, as it was committed\n"
    assert f"note: {made.root}, HEAD is {head}{taken}" in output
    assert f"note: {client_source.CONTEXT}: local changes{taken}" in output


def test_a_fork_without_the_commit_is_named(made: client_source.Repository) -> None:
    absent = client_source.Repository(made.root, "0123456789" * 4)
    output = build(absent, made.root, code=3)
    assert f"{made.root}: has no commit {absent.commit}, HEAD is {made.commit}; " in output
    assert "github.com/p4lang/p4app-switchML.git: " not in output  # it was not tried


def test_another_commit_without_the_fixes_that_do_not_fit(
    made: client_source.Repository,
) -> None:
    path = made.root / client_source.CONTEXT
    path.write_text(path.read_text().replace("faulty", "forked"))
    other = client_source.commit(made.root, "more")
    output = build(made, made.root, "--commit", other)
    assert "HEAD is" not in output
    unfit = f"without the fix honest, which does not fit: {client_source.CONTEXT} is another file"
    assert unfit in output
    mark = archive.read(str(made.root.parent / "home")).mark
    assert mark is not None
    assert (mark.commit, mark.fixes) == (other, ())
    assert "not all 40 digits" in build(made, made.root, "--commit", other[:12], code=2)


BEFORE = b"".join(b"line %d\n" % number for number in range(40))
CHANGED = {
    "one": (BEFORE, BEFORE.replace(b"line 7\n", b"7\nseven\n")),
    "two": (BEFORE, BEFORE.replace(b"line 3\n", b"").replace(b"line 30\n", b"30\n")),
    "first": (BEFORE, b"new\n" + BEFORE),
    "last": (BEFORE, BEFORE.replace(b"line 39\n", b"39\n")),
    "open end": (BEFORE + b"end", BEFORE.replace(b"line 39\n", b"39\n") + b"end"),
    "closed end": (BEFORE + b"end", BEFORE + b"end\n"),
    "opened end": (BEFORE, BEFORE + b"end"),
    "same": (BEFORE, BEFORE),
    "new": (None, b"first\nlast"),
}


def test_git_applies_the_diffs(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    texts = []
    for name, (before, after) in CHANGED.items():
        path = f"{name.replace(' ', '-')}.txt"
        if before is not None:
            (tmp_path / path).write_bytes(before)
        texts.append((path, diff.between(path, before, after), after))
    (tmp_path / "patch").write_bytes(b"".join(text for _, text, _ in texts))
    git(tmp_path, "apply", "patch")
    for path, _, after in texts:
        assert (tmp_path / path).read_bytes() == after, path
    assert [path for path, text, _ in texts if not text] == ["same.txt"]


def test_the_commands_about_fixes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "patchgen", "client"]

    def message(*arguments: str) -> subprocess.CompletedProcess[str]:
        return captured([*command, *arguments], cwd=tmp_path)

    listed = message("build", "--list", "--without", "heap").stdout.splitlines()
    assert [line.split(":")[0] for line in listed][:2] == ["back-off", "completions"]
    assert not [line for line in listed if line.startswith("heap")]
    listed = message("patch", "--controller", "--list").stdout.splitlines()
    assert [line.split(":")[0] for line in listed] == ["dead-workers", "silent-workers"]
    unknown = message("patch", "--without", "nothing")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "--without nothing: no such fix; there are back-off, completions" in unknown.stderr
    none = message("build", str(tmp_path))
    assert none.returncode == 2
    assert "not a git repository; make one with: switchml-patch client" in none.stderr
    empty = message("status", str(tmp_path))
    assert empty.returncode == 3
    assert f"{tmp_path}: no client library, which is lib/libswitchml-client.a" in empty.stderr
