"""A work directory from which a cleaner of temporary files has removed some."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support import command, torch_project
from support.wheelhouse import make_request

from patchgen.core.wheel.conda.lockfile import Lock
from patchgen.core.wheel.conda.marker import NAME, Marker, write
from patchgen.core.wheel.stages import build_environment
from patchgen.core.wheel.values import Stage
from patchgen.core.wheel.workspace import Workspace
from patchgen.errors import TreeError


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fetched source, and what it was fetched from, in a directory with build's."""
    root = tmp_path_factory.mktemp("aged")
    project = torch_project.make(root / "project")
    given = ("--pytorch", project.pin_file, "--mirror", project.mirror)
    made = command.run("source", "-o", root / "work" / "source", *given)
    assert made.returncode == 0, made.stderr
    return root


def remove(*patterns: str) -> Callable[[Path], None]:
    """Return a function that removes the files of patterns below a directory, but no directory."""

    def clean(root: Path) -> None:
        for pattern in patterns:
            found = [path for path in root.glob(pattern) if path.is_file()]
            assert found
            for path in found:
                path.unlink()

    return clean


@pytest.mark.parametrize(
    "clean",
    [
        remove("caffe2/**/*"),
        remove("torch/**/*"),  # with the files that a patch changes
        remove(".git/HEAD"),
        remove(".git/objects/**/*"),
        remove("third_party/tiny/.git"),
        remove("**/*"),
    ],
    ids=["files", "hooked", "head", "objects", "submodule", "all"],
)
def test_what_to_remove_is_named(
    fetched: Path, tmp_path: Path, clean: Callable[[Path], None]
) -> None:
    shutil.copytree(fetched / "work", tmp_path / "work", symlinks=True)
    source = tmp_path / "work" / "source"
    (pin_file,) = (fetched / "project").glob("*.json")
    given = ["build", "--dry-run", "--pytorch", str(pin_file), "--python", torch_project.PYTHON]
    given += ["--work", str(source.parent), "--mirror", str(fetched / "project" / "served")]
    environ = {**os.environ, "CMAKE_GENERATOR": ""}
    before = command.run(*given, env=environ)
    assert before.returncode in (0, 6), before.stderr
    clean(source)
    done = command.run(*given, env=environ)
    assert done.returncode == 3, done.stdout + done.stderr
    *wrong, why, advice = done.stderr.splitlines()
    assert 1 <= len(wrong) <= 6
    assert why.startswith(f"{source} is made by the build, but services such as systemd-tmpfiles")
    assert advice.endswith(f"it is made again: rm -rf {source}")
    shutil.rmtree(source)
    assert command.run(*given, env=environ).returncode in (0, 6)


def test_an_environment_that_has_lost_files_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = replace(make_request(tmp_path), python=None)
    lock = Lock.__new__(Lock)
    monkeypatch.setattr(Lock, "identity", "1")
    monkeypatch.setattr("patchgen.core.wheel.conda.lockfile.stale", lambda *_: None)
    workspace = Workspace(wanted)
    named = workspace.sandbox.path(wanted.prefix)
    write(wanted.prefix, Marker("1", whole=True, named=named))
    python = Path(wanted.interpreter)
    python.parent.mkdir()
    python.touch()
    assert not [*build_environment._make_prefix(workspace, lock)]
    python.unlink()
    assert next(build_environment._make_prefix(workspace, lock)) is Stage.ENV
    Path(wanted.prefix, NAME).unlink()
    with pytest.raises(TreeError, match=f"has lost {NAME}\n.*\n.*rm -rf {wanted.prefix}"):
        next(build_environment._make_prefix(workspace, lock))
