"""The small project is what the tests of a build take it for: a torch that is built, and sums."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support import compiler_cache, torch_project
from support.waiting import ENOUGH

from patchgen.core.library.config import compose_simulated
from patchgen.system.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from support.torch_project import Project

pytestmark = pytest.mark.integration

VERSION = "1.13.2+small"
BUILD = {
    "BUILD_TEST": "0",
    "MAX_JOBS": "2",
    "PATH": "/usr/bin:/bin",
    "PYTORCH_BUILD_NUMBER": "1",
    "PYTORCH_BUILD_VERSION": VERSION,
    "SOURCE_DATE_EPOCH": "1670457600",
}
TELL = """
import ctypes, json, torch
import torch.distributed
library = ctypes.CDLL(torch._C.__file__)
library.torch_third_party.restype = ctypes.c_char_p
print(json.dumps({
    "version": torch.__version__,
    "commit": torch.version.git_version,
    "file": torch.__file__,
    "third_party": library.torch_third_party().decode(),
    "patched": hasattr(library, "switchml_torch_report"),
}))
"""
SUM = """
import json, torch
import torch.distributed as dist
from torch.distributed import switchml
dist.init_process_group("gloo")
tensor = torch.arange(1000, dtype=torch.int32) * (dist.get_rank() + 1)
dist.all_reduce(tensor)
report = switchml.report()
print(json.dumps({
    "right": bool((tensor == torch.arange(1000) * 3).all()),
    "calls": report["calls"],
    "patched": switchml.is_patched(),
}))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    source = torch_project.debian_source()
    return torch_project.make(tmp_path_factory.mktemp("project") / "made", source)


@pytest.fixture(scope="module")
def tree(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project.clone(tmp_path_factory.mktemp("tree") / "pytorch")


@pytest.fixture(scope="module")
def unpatched(tree: Path) -> Path:
    """The wheel, without c10d: the patched one proves that ProcessGroupGloo.cpp compiles."""
    build(tree, USE_DISTRIBUTED="0")
    return the_wheel(tree)


@pytest.fixture(scope="module")
def patched(unpatched: Path, project: Project, tree: Path, home: Path) -> Path:
    """The wheel of the same tree, with the patch applied after the first build, and c10d."""
    unpatched.rename(tree / "unpatched.whl")
    tool("apply", tree, "--pytorch", project.pin_file, "--switchml-home", home)
    (tree / "build" / "build.ninja").unlink()  # CMake is to run again
    build(tree, USE_DISTRIBUTED="1")
    return the_wheel(tree)


def tool(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "patchgen", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(tree: Path, *, ok: bool = True, python: str = torch_project.PYTHON, **env: str) -> str:
    """What `setup.py bdist_wheel` wrote."""
    done = subprocess.run(
        [python, "setup.py", "bdist_wheel"], cwd=tree, check=False,
        env={**BUILD, **compiler_cache.variables(), **env},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert (done.returncode == 0) == ok, done.stdout
    return done.stdout


def the_wheel(tree: Path) -> Path:
    (wheel,) = tree.glob("dist/*.whl")
    return wheel


def unpacked(wheel: Path, directory: Path) -> Path:
    shutil.unpack_archive(wheel, directory, "zip")
    return directory


def asked(directory: Path) -> dict[str, object]:
    done = subprocess.run(
        [torch_project.PYTHON, "-W", "error", "-c", TELL], cwd="/", check=True, text=True,
        env={"PYTHONPATH": str(directory)}, stdout=subprocess.PIPE,
    )  # fmt: skip
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_the_same_source_gives_the_same_commits(project: Project, tmp_path: Path) -> None:
    again = torch_project.make(tmp_path / "again", torch_project.debian_source())
    assert again.commit == project.commit
    assert again.submodule_commit == project.submodule_commit != again.later
    assert again.pin_file.read_bytes() == project.pin_file.read_bytes()
    changed = again.changed(torch_project.COMPILE_ERROR)
    assert changed.commit != again.commit
    assert changed.pin.commit == changed.commit
    assert changed.pin.files == again.pin.files


def test_unpatched(unpatched: Path, tree: Path, project: Project, tmp_path: Path) -> None:
    assert asked(unpacked(unpatched, tmp_path / "torch")) == {
        "version": VERSION,
        "commit": project.commit,
        "file": str(tmp_path / "torch" / "torch" / "__init__.py"),
        "third_party": torch_project.SUBMODULE_TEXT,
        "patched": False,
    }
    assert torch_project.git(tree, "status", "--porcelain") == ""


@pytest.mark.rebuild
def test_patched_sums_on_two_ranks(patched: Path, tmp_path: Path) -> None:
    torch = unpacked(patched, tmp_path / "torch")
    assert asked(torch)["patched"] is True
    port, controller_port = str(free_port()), free_port()
    for rank in range(2):
        (tmp_path / str(rank)).mkdir()
        text = compose_simulated(rank=rank, workers=2, controller_port=controller_port)
        (tmp_path / str(rank) / "switchml.cfg").write_text(text)
    ranks = [
        subprocess.Popen(
            [torch_project.PYTHON, "-c", SUM], cwd=tmp_path / str(rank),
            stdout=subprocess.PIPE, text=True,
            env={
                "GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                "PYTHONPATH": str(torch), "RANK": str(rank), "WORLD_SIZE": "2",
            },
        )
        for rank in range(2)
    ]  # fmt: skip
    for process in ranks:
        answer = json.loads(process.communicate(timeout=ENOUGH)[0])
        assert answer == {"right": True, "calls": 1, "patched": True}


@pytest.mark.rebuild
def test_a_fresh_build_has_the_same_bytes(
    patched: Path, tree: Path, project: Project, home: Path
) -> None:
    before = patched.read_bytes()
    shutil.rmtree(tree)
    project.clone(tree)
    tool("apply", tree, "--pytorch", project.pin_file, "--switchml-home", home)
    build(tree)
    assert the_wheel(tree).read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (torch_project.COMPILE_ERROR, "threads.cpp:1:30: error: 'no_such_name' was not declared"),
        (torch_project.CONFIGURE_ERROR, "CMake Error at third_party/tiny/CMakeLists.txt:1"),
        (torch_project.LINK_ERROR, "undefined reference to `gone()'"),
    ],
    ids=["compile", "configure", "link"],
)
def test_a_broken_one_does_not_build(
    changes: dict[str, str], expected: str, tmp_path: Path
) -> None:
    broken = torch_project.make(tmp_path / "broken", torch_project.debian_source(), changes)
    tree = broken.clone(tmp_path / "tree")
    assert expected in build(tree, ok=False, LC_ALL="C", USE_DISTRIBUTED="0")
    assert not os.path.exists(tree / "dist")
