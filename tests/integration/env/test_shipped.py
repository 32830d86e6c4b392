"""The shipped environment files, solved with real metadata.

SWITCHML_TEST_CHANNELS names a directory of channels, or is `public` for the channels of the files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from support.conda import Site

from patchgen.core import recipes
from patchgen.core.patch import pins
from patchgen.core.recipes import Limits
from patchgen.core.wheel.conda import lockfile, spec
from patchgen.core.wheel.conda.lockfile import Package

REPOSITORY = Path(__file__).parents[3]
CHANNELS = "SWITCHML_TEST_CHANNELS"
FILES = ["environment.yml", "environment-cpu.yml"]
LIMITED = {
    "gxx_linux-64": "gcc", "cudatoolkit-dev": "cuda", "python": "python", "cmake": "cmake",
    "mkl": "mkl", "setuptools": "setuptools", "numpy": "numpy",
}  # fmt: skip


@pytest.fixture(scope="module")
def channels() -> Path | None:
    """Directory of channels; None: the public ones."""
    given = os.environ.get(CHANNELS)
    if given == "public":
        return None
    directory = Path(given) if given else REPOSITORY.parent / "shared/conda"
    if not given and not directory.is_dir():
        pytest.skip(
            f"no {directory}: with a network, set {CHANNELS}=public, "
            f"else {CHANNELS}=DIRECTORY with DIRECTORY/CHANNEL/PLATFORM/repodata.json"
        )
    return directory


@dataclass(frozen=True)
class Solved:
    """An environment file's lock."""

    packages: dict[str, Package]

    def __getitem__(self, name: str) -> Package:
        return self.packages[name]

    def needs(self, name: str) -> dict[str, str]:
        return dict(self[name].depends)


def solve(file: Path, channels: Path | None, directory: Path) -> Solved:
    named = spec.load(str(file)).channels if channels else ()
    given = [f"--channel={name}={channels.resolve().as_uri()}/{name}" for name in named if channels]
    output = directory / "lock.yml"
    cache = directory / "cache"
    Site(directory).run("lock", "-f", file, "-o", output, "--cache", cache, *given)
    return Solved({one.name: one for one in lockfile.read(str(output)).packages})


@pytest.fixture(scope="module")
def shipped(channels: Path | None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Solved]:
    return {
        name: solve(REPOSITORY / name, channels, tmp_path_factory.mktemp("lock")) for name in FILES
    }


@pytest.fixture(params=FILES)
def solved(request: pytest.FixtureRequest, shipped: dict[str, Solved]) -> Solved:
    return shipped[request.param]


@pytest.fixture
def gpu(shipped: dict[str, Solved]) -> Solved:
    return shipped[FILES[0]]


def test_no_package_stands_for_one_of_the_system(solved: Solved) -> None:
    assert not [name for name in solved.packages if "external" in solved[name].build]


def test_pytorch_builds_with_these_versions(solved: Solved) -> None:
    known = Limits(
        "1.7.1", next(recipes.read(p) for p in pins.shipped() if p.version == "1.7.1").limits
    )
    for name, limit in LIMITED.items():
        if name in solved.packages:
            assert known.problems(limit, solved[name].version, "") == (), name
    assert solved["sysroot_linux-64"].version == "2.17"
    assert solved["glog"].version.startswith("0.5.")


def test_mkl_is_the_only_blas(solved: Solved) -> None:
    assert solved["libblas"].build.endswith("mkl")
    assert not [name for name in solved.packages if "openblas" in name]


def test_open_mpi_is_the_one_that_mpi4py_is_built_with(gpu: Solved) -> None:
    assert gpu["openmpi"].version.startswith("4.1.")
    assert gpu["mpi"].build == "openmpi"
    assert "openmpi" in gpu.needs("mpi4py")


def test_what_the_script_of_cudatoolkit_dev_runs(gpu: Solved) -> None:
    assert {"python", "wget"} <= set(gpu.packages)


@pytest.mark.parametrize("driver", ["10.1", "10.2", "11.4"])
def test_all_of_cuda_is_10_1_whatever_the_driver(
    channels: Path | None, tmp_path: Path, driver: str
) -> None:
    data = yaml.safe_load((REPOSITORY / FILES[0]).read_text())
    data["x-switchml"]["virtual_packages"]["cuda"] = driver
    file = tmp_path / "environment.yml"
    file.write_text(yaml.safe_dump(data))
    found = solve(file, channels, tmp_path)
    for name in ("cudatoolkit", "cudatoolkit-dev"):
        assert found[name].version.startswith("10.1."), name
    for name, package in found.packages.items():
        needed = dict(package.depends).get("cudatoolkit")
        assert needed is None or "10.1" in needed or needed == "*", name
