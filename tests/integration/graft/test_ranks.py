"""A graft that is installed in an interpreter: every process of it delegates, however started."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.group_checks import break_library, check_hidden_library
from support.launcher import Launcher
from support.torch import REPOSITORY, checked, located

from patchgen.core.patch import render


@pytest.fixture(scope="module")
def python(torch_python: Path, graft: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that has the torch in use, its numpy, and the graft installed."""
    directory = tmp_path_factory.mktemp("installed") / "a venv"
    subprocess.run([torch_python, "-m", "venv", "--without-pip", directory], check=True)
    found = directory / "bin" / "python"
    code = (
        "import importlib.util as util, os\n"
        "for name in ('torch', 'numpy'):\n"
        "    print(os.path.dirname(*util.find_spec(name).submodule_search_locations))\n"
    )
    where = subprocess.check_output([torch_python, "-c", code], text=True)
    (site,) = directory.glob("lib/python*/site-packages")
    (site / "torch-in-use.pth").write_text(where)
    message = checked("graft", "install", "--torch", found, graft)
    assert f"{found} loads it whenever it imports torch" in message
    return found


@pytest.fixture(scope="module")
def installed(python: Path, launch: Launcher, tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    scratch = tmp_path_factory.mktemp("installed-ranks")
    return dataclasses.replace(launch, python=python, loading={}, scratch=scratch, runs=[])


def test_torchs_own_launcher(installed: Launcher, torch_launcher: list[str]) -> None:
    (log,) = installed.torchrun("sums", 2, torch_launcher, {"sizes": [1, 1000]})
    assert log.code == 0, log.out + log.err
    assert log.out.count("RESULT ") == 2
    assert log.out.count('"delegating": true') == 2
    assert all(f'"filled_in": "rank={rank} num_workers=2"' in log.out for rank in range(2))


@pytest.mark.rebuild
def test_works_come_first_and_nothing_is_recorded(torch: Path, tmp_path: Path) -> None:
    """As a graft of PyTorch 2.8 and newer is compiled."""
    root, program = located(torch), tmp_path / "overrides"
    include = root / "include"
    subprocess.run(
        [
            "clang++", "-std=c++17", "-Wall", "-Wextra", "-Werror",
            "-isystem", include, "-isystem", include / "torch" / "csrc" / "api" / "include",
            "-include", REPOSITORY / "templates" / "graft" / "overrides.hpp",
            REPOSITORY / "tests" / "cpp" / "overrides.cpp", "-o", program,
            f"-L{root / 'lib'}", f"-Wl,-rpath,{root / 'lib'}", "-ltorch_cpu", "-lc10",
        ],
        check=True,
    )  # fmt: skip
    subprocess.run([program], check=True)


def test_a_rank_that_cannot_open_the_library(launch: Launcher, graft: Path, tmp_path: Path) -> None:
    """The graft is loaded all the same."""
    for name in (graft.name, render.LIBRARY):
        shutil.copy(graft.parent / name, tmp_path)
    break_library(tmp_path / render.LIBRARY)
    loading = {"SWITCHML_TEST_GRAFT": str(tmp_path / graft.name)}
    check_hidden_library(launch, loading)


def test_what_torch_can_take_of_it(graft: Path) -> None:
    """The process group, and nothing of SwitchML's library or of what that links."""
    for library, pattern in ((graft, "c10d::|switchml_"), (graft.parent / render.LIBRARY, "^$")):
        output = subprocess.check_output(["nm", "-DC", "--defined-only", library], text=True)
        names = {line.split(maxsplit=2)[2] for line in output.splitlines()}
        names.discard("switchml_delegate_interface")
        assert names or library != graft
        assert not [name for name in names if not re.search(pattern, name)]
