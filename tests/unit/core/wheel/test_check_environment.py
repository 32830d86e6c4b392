from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from patchgen.core.library.archive import Archive
from patchgen.core.patch import patches, pins
from patchgen.core.patch.pins import Pin
from patchgen.core.wheel import conda
from patchgen.core.wheel.check import ACCEPTABLE, link, programs, python, room
from patchgen.core.wheel.check.advice import NOT_LOCKED, of_lock, relock
from patchgen.core.wheel.check.facts import Client, Facts
from patchgen.core.wheel.check.locked import LockedEnvironment, find_locked_environment
from patchgen.core.wheel.request import BuildRequest
from patchgen.errors import ToolError
from patchgen.options import resolve
from patchgen.system.checks import Check

SHIPPED = pins.find("v1.7.1", pins.shipped())
RECIPE = {
    **SHIPPED.recipe,
    "limits": {
        "python": ">=3.6.2,<3.10",
        "python's exit": ">=3.6.2,<3.9",
        "blas": "",
        "dataclasses": "",
        "gcc": ">=7,<11",
        "gcc with CUDA": ">=7,<9",
        "cuda": "==10.1.*",
        "cmake": ">=3.15,<4",
        "setuptools": "<60",
        "numpy": "<1.24",
        "mkl": "<2024.1",
        "pyyaml": "",
    },
}
PIN = SHIPPED._replace(recipe=RECIPE)
CLIENT = Client(None)
GOOD = {
    "python": "3.7.12", "gxx_linux-64": "7.5.0", "cmake": "3.26.4", "ninja": "1.11.1",
    "setuptools": "59.8.0", "wheel": "0.38.4", "numpy": "1.21.6", "pyyaml": "6.0",
    "cudatoolkit-dev": "10.1.243",
}  # fmt: skip
PACKAGES = "Python packages"  # a row
RELOCK = "in the environment file, then run: switchml-patch env lock"
MAKE = "run: switchml-patch env lock; or --python PYTHON builds without an environment"
PLATFORM = conda.platform()  # of conda
SAMPLE = f"""\
version: 1
metadata:
  content_hash: {{{PLATFORM}: x}}
  channels: []
  platforms: [{PLATFORM}]
  sources: [environment.yml]
package:
- name: cmake
  version: 3.26.4
  manager: conda
  platform: {PLATFORM}
  dependencies: {{}}
  url: https://example.org/{PLATFORM}/cmake-3.26.4-h0_0.conda
  hash: {{md5: a, sha256: b}}
  category: main
  optional: false
"""


def ask(
    work: str = "/w", lock: str = "conda-lock.yml", cwd: str = "/", pin: Pin = PIN, **environ: str
) -> BuildRequest:
    options, lock = resolve({}, {}, "/"), os.path.join(cwd, lock)
    source = os.path.join(cwd, "environment.yml")
    return BuildRequest(patches.make(options, pin), work, "", None, lock, source, environ)


def locked(packages: dict[str, str], **environ: str) -> Facts:
    return Facts(ask(pin=PIN, **environ), CLIENT, LockedEnvironment(packages=packages))


def rows(facts: Facts) -> dict[str, Check]:
    found = [
        programs.check_compilers(facts),
        programs.check_cmake(facts),
        programs.check_ninja(facts),
        programs.check_nvcc(facts),
        *python.check_interpreter(facts),
    ]
    return {row.name: row for row in found}


def test_a_lock_that_fits() -> None:
    found = rows(locked(GOOD))
    assert all(row.ok for row in found.values())
    assert {name: row.found for name, row in found.items()} == {
        "compiler": "gcc 7.5.0 of the lock",
        "cmake": "3.26.4 of the lock",
        "ninja": "1.11.1 of the lock",
        "CUDA": "10.1.243 of the lock",
        "Python": "3.7.12 of the lock",
        "Python's exit": "3.7.12",
        "Python packages": "setuptools 59.8.0, wheel 0.38.4, numpy 1.21.6, pyyaml 6.0",
    }


@pytest.mark.parametrize(("within", "needed"), [(None, "1"), (LockedEnvironment(packages={}), "4")])
def test_an_environment_takes_room_too(
    tmp_path: Path, within: LockedEnvironment | None, needed: str
) -> None:
    pin = PIN._replace(recipe={**RECIPE, "disk": 1})
    wanted = ask(str(tmp_path), pin=pin)
    *_, row = room.check_machine(Facts(wanted, CLIENT, within))
    assert row.found.endswith(f"GiB free, {needed} needed")


@pytest.mark.parametrize(
    ("file", "needed"),
    [("- cudatoolkit-dev=10.1", "7"), ("- python=3.7  # no cudatoolkit-dev", "4"), (None, "4")],
)
def test_the_environment_file_says_what_a_lock_will_need(
    tmp_path: Path, file: str | None, needed: str
) -> None:
    wanted = ask(str(tmp_path), cwd=str(tmp_path), pin=PIN._replace(recipe={"disk": 1}))
    if file:
        Path(wanted.environment_file).write_text(f"dependencies:\n{file}\n")
    *_, row = room.check_machine(Facts(wanted, CLIENT, LockedEnvironment()))
    assert row.found.endswith(f"GiB free, {needed} needed")


OTHER = "PyTorch 1.7.1 builds with"


@pytest.mark.parametrize(
    ("packages", "row", "problem"),
    [
        ({"gxx_linux-64": "9.5.0"}, "compiler", f"gcc 9.5.0: {OTHER} >=7,<9; change it"),
        ({"cmake": "4.0.1"}, "cmake", f"cmake 4.0.1: {OTHER} >=3.15,<4; change it"),
        ({"cudatoolkit-dev": "11.8.0"}, "CUDA", f"CUDA 11.8.0: {OTHER} ==10.1.*; change it"),
        ({"python": "3.11.0"}, "Python", f"Python 3.11.0: {OTHER} >=3.6.2,<3.10; change it"),
        ({"python": ""}, "Python", f"{NOT_LOCKED}; put python>=3.6.2,<3.10"),
        ({"python": "3.6.15"}, PACKAGES, f"dataclasses: {NOT_LOCKED}; put dataclasses"),
        ({"python": "3.6.15", "dataclasses": "0.8"}, PACKAGES, ""),
        ({"pyyaml": ""}, PACKAGES, f"pyyaml: {NOT_LOCKED}; put pyyaml"),
        ({"mkl": "2024.2.0"}, PACKAGES, f"mkl 2024.2.0: {OTHER} <2024.1; put mkl<2024.1"),
        (
            {"numpy": ""},
            "numpy (optional)",
            "not there: torch is built without from_numpy() and numpy(); put numpy<1.24",
        ),
    ],
)
def test_what_a_lock_has_and_lacks(packages: dict[str, str], row: str, problem: str) -> None:
    there = {name: version for name, version in {**GOOD, **packages}.items() if version}
    found = rows(locked(there))[row]
    assert found.problems == ((f"{problem} {RELOCK}",) if problem else ())
    assert found.required == ("optional" not in row)


@pytest.mark.parametrize(
    ("version", "ok"), [("3.7.12", True), ("3.8.20", True), ("3.9.2", False), ("3.10.1", False)]
)
def test_a_python_under_which_torch_crashes_at_exit(version: str, *, ok: bool) -> None:
    row = rows(locked({**GOOD, "python": version}))["Python's exit"]
    assert (row.ok, row.found, row.required) == (ok, version, True)
    if not ok:
        assert "segmentation fault (exit code 139) or an abort (134)" in row.problems[0]
        assert row.problems[1] == (
            f"take Python >=3.6.2,<3.9: change it {RELOCK}; "
            "or build all the same: --accept crash-at-exit"
        )


def test_the_rows_that_a_user_may_accept() -> None:
    (row,) = link.check_blas(locked(GOOD))
    assert set(ACCEPTABLE.values()) <= {row.name, *rows(locked(GOOD))}


MKL = {"mkl": "2020.4", "mkl-include": "2020.4"}


@pytest.mark.parametrize(
    ("packages", "found"),
    [
        (MKL, of_lock("mkl 2020.4")),
        ({"openblas": "0.3.21"}, of_lock("openblas 0.3.21")),
        ({"mkl": "2020.4"}, ""),
        ({"libopenblas": "0.3.21"}, ""),
    ],
)
def test_blas_of_a_lock(packages: dict[str, str], found: str) -> None:
    (row,) = link.check_blas(locked({**GOOD, **packages}))
    assert (row.name, row.found, row.ok, row.required) == (
        "BLAS and LAPACK", found, bool(found), True
    )  # fmt: skip
    if not found:
        put = f"put mkl and mkl-include {RELOCK}; or build without: --accept no-blas"
        assert row.problems[1] == put
    free = PIN._replace(recipe={**RECIPE, "limits": {}})
    assert not [*link.check_blas(replace(locked(GOOD), request=ask(pin=free)))]


GLOG = f"glog 0.7.1: the client library builds with <0.6; {relock()}"


@pytest.mark.parametrize(
    ("packages", "simulator", "found", "problems"),
    [
        ({"glog": "0.5.0", "boost-cpp": "1.74"}, False, "glog 0.5.0, boost-cpp 1.74", []),
        ({"glog": "0.7.1", "boost-cpp": "1.74"}, True, "glog 0.7.1, boost-cpp 1.74", []),
        ({"glog": "0.7.1", "boost-cpp": "1.74"}, False, "glog 0.7.1, boost-cpp 1.74", [GLOG]),
        (
            {"libboost-devel": "1.86"},
            True,
            "boost-cpp 1.86",
            [f"no library glog in the lock; {relock('put glog')}"],
        ),
    ],
)
def test_libraries_of_a_lock(
    packages: dict[str, str], found: str, problems: list[str], *, simulator: bool
) -> None:
    client = Client(Archive((), timeouts=True, cxx11_abi=True, simulator=simulator))
    names = ("glog", "boost_program_options")
    row = link.find_in_lock(names, replace(locked(packages), client=client))
    assert row == Check("libraries", tuple(problems), found)


def test_mkl_counts_where_the_lock_has_it() -> None:
    assert "mkl" not in rows(locked(GOOD))[PACKAGES].found
    found = rows(locked({**GOOD, "mkl": "2020.4"}))[PACKAGES]
    assert found.ok
    assert found.found.endswith(", mkl 2020.4")


def test_gcc_9_is_refused_with_cuda_only() -> None:
    packages = {**GOOD, "gxx_linux-64": "9.5.0"}
    assert rows(locked(packages, USE_CUDA="0"))["compiler"].ok
    assert not rows(locked(packages, USE_CUDA="1"))["compiler"].ok


@pytest.mark.parametrize(
    ("environ", "packages", "cuda"),
    [
        ({}, {}, False),
        ({}, {"cudatoolkit-dev": "10.1.243"}, True),
        ({"CUDA_HOME": "/cuda"}, {}, True),
        ({"USE_CUDA": "ON"}, {}, True),
        ({"USE_CUDA": ""}, {}, False),
        ({"USE_CUDA": "0"}, {"cudatoolkit-dev": "10.1.243"}, False),
        ({"USE_CUDA": "off", "CUDA_HOME": "/cuda"}, {}, False),
    ],
)
def test_whether_the_build_is_with_cuda(
    environ: dict[str, str], packages: dict[str, str], *, cuda: bool
) -> None:
    assert locked(packages, **environ).cuda is cuda


def test_an_environment_file_of_the_directory_comes_before_the_tools_own(tmp_path: Path) -> None:
    own = f"{conda.SHIPPED}/environment.yml"
    assert conda.locate("environment.yml", str(tmp_path)) == own
    (tmp_path / "environment.yml").touch()
    assert conda.locate("environment.yml", str(tmp_path)) == f"{tmp_path}/environment.yml"
    for name in ("other.yml", "./environment-cpu.yml", "/x/environment.yml"):
        assert not conda.locate(name, str(tmp_path)).startswith(conda.SHIPPED)


def look(tmp_path: Path, text: str) -> LockedEnvironment:
    (tmp_path / "lock.yml").write_text(text)
    return find_locked_environment(ask(str(tmp_path / "work"), "lock.yml", str(tmp_path)))


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is installed, which no Python before 3.10 can."""
    pytest.importorskip("yaml", reason="PyYAML comes with the extra `env`")
    monkeypatch.setattr(conda, "require", lambda: None)


@pytest.mark.usefixtures("able")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [\n", f"no conda-lock.yml: no YAML at line 2; {MAKE}"),
        (SAMPLE.replace("hash:", "hush:"), f"no conda-lock.yml: hash: missing; {MAKE}"),
        (
            SAMPLE.replace(f"platforms: [{PLATFORM}]", "platforms: [a, b]"),
            f"is for a, b; lock one platform; {MAKE}",
        ),
        (
            SAMPLE.replace(f"platforms: [{PLATFORM}]", "platforms: [osx-64]"),
            (
                f"is for osx-64, this machine is {PLATFORM}; run: switchml-patch env lock "
                f"--platform {PLATFORM}"
            ),
        ),
    ],
)
def test_a_lock_that_cannot_be_used(tmp_path: Path, text: str, problem: str) -> None:
    found = look(tmp_path, text)
    assert found.problems == (f"{tmp_path}/lock.yml: {problem}",)
    assert found.prefix is None


def test_all_that_is_missing_is_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise ToolError("py-rattler: not installed")

    monkeypatch.setattr(conda, "require", refuse)
    wanted = ask(str(tmp_path / "work"), "lock.yml", str(tmp_path))
    other = "or --python PYTHON builds without an environment"
    packages, lock = find_locked_environment(wanted).problems
    assert packages == f"py-rattler: not installed; {other}"
    nowhere = f"{tmp_path}/lock.yml: No such file or directory, nor {tmp_path}/environment.yml to"
    assert lock == f"{nowhere} make it from; name a lock with --lock; {other}"


@pytest.mark.usefixtures("able")
@pytest.mark.parametrize("file", ["environment.yml", "other.yml"])
def test_a_lock_that_a_build_will_make(tmp_path: Path, file: str) -> None:
    (tmp_path / file).touch()
    work = str(tmp_path / "work")
    wanted = ask(work, "lock.yml", str(tmp_path))
    found = find_locked_environment(wanted)
    assert (not found.problems) == (file == "environment.yml")
    if not found.problems:
        assert found.found == f"{tmp_path}/lock.yml will be made from {tmp_path}/environment.yml"
    (tmp_path / "lock.yml").write_text("no lock")
    assert find_locked_environment(wanted).problems
    nowhere = f"{tmp_path}/nowhere/lock.yml"
    (problem,) = find_locked_environment(replace(wanted, lock=nowhere)).problems
    remedy = MAKE if file == "environment.yml" else "name a lock with --lock"
    assert problem.startswith(f"{nowhere}: No such file or directory")
    assert remedy in problem


def test_no_library_for_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    monkeypatch.setattr(conda, "require", lambda: None)
    (problem,) = look(tmp_path, SAMPLE).problems
    assert problem == (
        f"PyYAML: not installed; run: {shlex.quote(sys.executable)} -m pip install PyYAML; "
        "or --python PYTHON builds without an environment"
    )
