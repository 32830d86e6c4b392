"""A graft that is installed in an interpreter: every process of it delegates, however started."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path

import pytest
from support import programs
from support.launcher import Launcher
from support.torch import checked, switchml_patch

from patchgen.system.ports import free_port


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
    told = checked("graft", "install", "--torch", found, graft)
    assert f"{found} loads it whenever it imports torch" in told
    return found


@pytest.fixture(scope="module")
def installed(python: Path, launch: Launcher, tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    scratch = tmp_path_factory.mktemp("installed-ranks")
    return dataclasses.replace(launch, python=python, loading={}, scratch=scratch, runs=[])


def test_status(python: Path, torch_python: Path) -> None:
    data = json.loads(checked("status", python, "--json"))
    assert (data["state"], data["simulator"], data["problems"]) == ("grafted", True, [])
    assert data["graft"]["torch"]["version"] == data["torch"]["version"]
    assert json.loads(checked("status", torch_python, "--json"))["graft"] is None


def test_torchs_own_launcher(installed: Launcher, torch_launcher: list[str]) -> None:
    (log,) = installed.torchrun("sums", 2, torch_launcher, {"sizes": [1, 1000]})
    assert log.code == 0, log.out + log.err
    assert log.out.count("RESULT ") == 2
    assert log.out.count('"delegating": true') == 2
    assert all(f'"filled_in": "rank={rank} num_workers=2"' in log.out for rank in range(2))


def test_spawned_ranks(installed: Launcher, tmp_path: Path) -> None:
    run = installed.prepare(2, config={"prepostprocessor": "bypass"})
    program = tmp_path / "spawns.py"
    program.write_text(programs.read("grafted_spawn"))
    done = subprocess.run(
        [installed.python, program, run, str(free_port())],
        env=installed.environment({}, preload=False), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 delegated", "rank 1 delegated"]


def test_without_the_graft_for_once(installed: Launcher) -> None:
    code = "import torch.distributed.switchml as s; print(s.is_patched())"
    env = installed.environment({"SWITCHML_GRAFT": "0"}, preload=False)
    out = subprocess.check_output([installed.python, "-c", code], env=env, text=True)
    assert out == "False\n"


def test_a_graft_of_another_torch(installed: Launcher, graft: Path, tmp_path: Path) -> None:
    """Nothing of it is loaded; the message names both."""
    content = graft.read_bytes()
    marked = b'"commit": "'
    place = content.index(marked, content.index(b"switchml-graft: {")) + len(marked)
    other = tmp_path / "other.so"
    other.write_bytes(content[:place] + b"other" + content[place + 5 :])
    code = "import torch, torch.distributed.switchml as s; print(s.is_patched())"
    env = installed.environment({"SWITCHML_GRAFT": str(other)}, preload=False)
    done = subprocess.run(
        [installed.python, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert done.stdout == "False\n"
    assert done.stderr.count("\n") == 1
    assert "(commit other" in done.stderr
    assert ", this is torch " in done.stderr
    arguments = ["graft", "install", "--torch", str(installed.python), str(other)]
    refused = switchml_patch(*arguments)
    assert refused.returncode == 3
    assert "it is for torch" in refused.stderr
