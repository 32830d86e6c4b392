"""pip compiles the source archive, for the torch that it finds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from support.torch import PLUGIN, Plugin, checked, located, switchml_patch
from support.waiting import captured

from patchgen.core.verify import summing
from patchgen.errors import TreeError
from patchgen.system import wheel
from patchgen.system.payload import run_pip

DEBIAN = "/usr/bin/python3"


class Environment(NamedTuple):
    """A virtual environment without a pip of its own."""

    root: Path

    @property
    def python(self) -> Path:
        return self.root / "bin" / "python"

    def pip(self, *arguments: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        pip = [sys.executable, run_pip.__file__, "--python", str(self.python)]
        environ = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **env}
        return captured([*pip, *arguments], env=environ)


def environment(torch: Path | str | None, directory: Path) -> Environment:
    base = torch or sys.executable
    subprocess.run([base, "-m", "venv", "--without-pip", directory], check=True)
    if torch:
        (site,) = directory.glob("lib/python*/site-packages")
        (site / "torch.pth").write_text(f"{located(torch).parent}\n")
    return Environment(directory)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sdist")
    checked("plugin", "sdist", "-o", directory)
    (found,) = directory.iterdir()
    return found


@pytest.fixture(scope="module")
def unpacked(archive: Path) -> Path:
    subprocess.run(["tar", "-xf", archive, "-C", archive.parent], check=True)
    return archive.parent / archive.name.removesuffix(".tar.gz")


def test_the_wheel_is_that_of_plugin_build(
    archive: Path, plugin: Plugin, torch: Path, home: Path, tmp_path: Path
) -> None:
    """Byte for byte but for the SBOM, with the library that SWITCHML_HOME names."""
    given = ("wheel", "--no-index", "--no-deps", "-w", tmp_path, archive)
    made = environment(torch, tmp_path / "venv")
    done = made.pip(*given, SWITCHML_HOME=str(home), **PLUGIN)
    assert done.returncode == 0, done.stdout + done.stderr
    with wheel.reading(str(plugin.wheel), TreeError) as whole:
        members = {name: whole.member(name) for name in whole.names if wheel.SBOM not in name}
        wheel.write(str(tmp_path / "same.whl"), whole.record, members, epoch=0)
        assert len(members) == len(whole.names) - 1
    assert (tmp_path / plugin.wheel.name).read_bytes() == (tmp_path / "same.whl").read_bytes()


@pytest.mark.rebuild
def test_one_command_is_a_first_look(archive: Path, tmp_path: Path) -> None:
    """With the simulator compiled in, in an isolated build, which needs nothing of an index."""
    made = environment(DEBIAN, tmp_path / "venv")
    done = made.pip("install", "--no-index", "--no-deps", archive, **PLUGIN)
    assert done.returncode == 0, done.stdout + done.stderr
    verified = switchml_patch("verify", made.python, "--json")
    checks = {check["name"]: check for check in json.loads(verified.stdout)["checks"]}
    assert verified.returncode == 0, verified.stdout
    assert checks["plugin"]["found"] == "no flags, the simulator"
    assert checks[summing.ranks(2)]["found"] == summing.SIMULATED


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for code, *arguments in ((2, "--dpdk", "--rdma"), (2, "--mlx5"), (5, "-o", tmp_path / "file")):
        done = switchml_patch("plugin", "sdist", "--builddir", tmp_path / "new", *arguments)
        assert done.returncode == code, done.stderr
        assert done.stderr.startswith("error: ")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_pip_shows_what_is_missing_in_two_lines(archive: Path, tmp_path: Path) -> None:
    made = environment(None, tmp_path / "venv")
    done = made.pip("install", "--no-build-isolation", "--no-index", archive)
    assert done.returncode == 1
    assert "[2 lines of output]" in done.stderr
    assert "error: " in done.stderr
    assert "cannot import torch, for which the plugin is compiled" in done.stderr
    assert "Traceback" not in done.stderr


def hook(
    unpacked: Path, python: Path | str, call: str, **env: str
) -> subprocess.CompletedProcess[str]:
    code = f"import torch_switchml_build as build; print(build.{call})"
    program = f"import sys; sys.path[:0] = [{str(unpacked)!r}]; {code}"
    return captured([python, "-c", program], cwd=unpacked, env={**os.environ, **env})


def programs(directory: Path, *names: str) -> str:
    """A PATH of some of the programs of this one."""
    directory.mkdir()
    for name in names:
        found = subprocess.check_output(["which", name], text=True).strip()
        (directory / name).symlink_to(found)
    return str(directory)


@pytest.mark.parametrize(
    ("there", "message"),
    [
        (("cmake", "make"), "error: no C++ compiler on PATH; install one"),
        (("c++",), "error: cmake: not on PATH; install it"),
    ],
    ids=["compiler", "cmake"],
)
def test_a_program_that_is_missing(
    unpacked: Path, home: Path, tmp_path: Path, there: tuple[str, ...], message: str
) -> None:
    path = programs(tmp_path / "bin", *there)
    alone = tmp_path / "python"
    alone.symlink_to(DEBIAN)
    call = f"build_wheel({str(tmp_path)!r})"
    done = hook(unpacked, alone, call, PATH=path, SWITCHML_HOME=str(home))
    assert done.returncode == 1
    assert done.stderr.startswith(message), done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.glob("*.whl"))


def test_pip_is_asked_for_cmake_where_there_is_none(unpacked: Path, tmp_path: Path) -> None:
    alone = tmp_path / "python"
    alone.symlink_to(DEBIAN)
    call = "get_requires_for_build_wheel()"
    assert hook(unpacked, alone, call).stdout == "[]\n"
    done = hook(unpacked, alone, call, PATH=programs(tmp_path / "bin", "make"))
    assert done.stdout == "['cmake>=3.16']\n"
