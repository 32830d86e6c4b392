"""A work directory from which a cleaner of temporary files has removed some."""

from __future__ import annotations

import os
import shutil
import subprocess
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
    planned = plan(root, root / "work")
    assert planned.returncode in (0, 6), planned.stderr
    return root


def plan(root: Path, work: Path) -> subprocess.CompletedProcess[str]:
    """Plan a build of the project in `root`."""
    project = root / "project"
    given: list[str | Path] = ["--pytorch", project / "pin.json", "--mirror", project / "served"]
    given += ["--python", torch_project.PYTHON, "--work", work]
    return command.run("build", "--dry-run", *given, env={**os.environ, "CMAKE_GENERATOR": ""})


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
    clean(source)
    done = plan(fetched, source.parent)
    assert done.returncode == 3, done.stdout + done.stderr
    *wrong, why, advice = done.stderr.splitlines()
    assert 1 <= len(wrong) <= 6
    assert why.startswith(f"{source} is made by the build, but services such as systemd-tmpfiles")
    assert advice.endswith(f"it is made again: rm -rf {source}")


def test_without_a_source_a_build_can_be_planned(fetched: Path, tmp_path: Path) -> None:
    """As after the command that is advised where a source has lost files."""
    (tmp_path / "work").mkdir()
    assert plan(fetched, tmp_path / "work").returncode in (0, 6)


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
