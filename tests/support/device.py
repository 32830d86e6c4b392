"""The simulated device of tests/cpp/staging, for ranks: tensors that are not in host memory.

A GPU is not enough: most machines that run the tests have none, and one that is there shows a wrong
order only now and then. Tests on a GPU are payload/programs/cuda_sums.py, which is started by hand.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from patchgen.core.torch import Torch, probe_torch
from patchgen.extras.install.plugin import target
from support import messages
from support.launcher import Launcher
from support.shared import once
from support.torch import results
from support.waiting import LIMIT_MS, captured

_TESTS = Path(__file__).parents[1]
STAGING = _TESTS / "cpp" / "staging"
"""Sources of the simulated device."""


def compile_options(torch: Torch) -> list[str]:
    """Return compiler options for sources that include the simulated device and torch."""
    headers = [*torch.include_dirs, torch.python_include]
    return [
        f"-std=c++{target.inspect(torch, {}).standard}", "-O0",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.cxx11_abi)}", f"-I{STAGING}",
        *(option for place in headers for option in ("-isystem", place)),
    ]  # fmt: skip


def link_options(torch: Torch) -> list[str]:
    """Return linker options, to be placed after the sources."""
    return ["-L", torch.lib_dir, f"-Wl,-rpath,{torch.lib_dir}", "-ltorch_cpu", "-lc10"]


@pytest.fixture(scope="session")
def probed(torch: Path) -> Torch:
    return probe_torch(str(torch), os.environ).require_gloo()


@pytest.fixture(scope="session")
def clang(probed: Torch, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return clang, with its options for `compile_options` and torch's headers precompiled.

    A source that includes torch takes half as long with them.
    """
    compiler = ["clang++", *compile_options(probed), "-fPIC", "-pthread"]

    def make(directory: Path) -> None:
        source = ["-x", "c++-header", str(STAGING / "torch_headers.hpp")]
        command = [*compiler, "-fpch-instantiate-templates", *source]
        done = captured([*command, "-o", str(directory / "torch.pch")], timeout=None)
        assert done.returncode == 0, done.stderr

    return [*compiler, "-include-pch", str(once(tmp_path_factory, "headers", make) / "torch.pch")]


@pytest.fixture(scope="session")
def device(probed: Torch, clang: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return library that makes torch.ops.simulated in the interpreter's torch."""
    if probed.cuda is not None:
        pytest.skip("the simulated device takes CUDA's place: name a torch without CUDA by TORCH")

    def make(directory: Path) -> None:
        source = [str(_TESTS / "payload" / "device.cpp"), "-o", str(directory / "device.so")]
        done = captured([*clang, "-shared", *source, *link_options(probed)])
        assert done.returncode == 0, done.stderr

    return once(tmp_path_factory, "device", make) / "device.so"


def check_device_outlives(
    launch: Launcher, library: Path, arguments: Mapping[str, Any], **given: Any
) -> None:
    """Kill the switch while tensors of a device are summed part by part."""
    rounds = arguments["dies"] + 3
    arguments = {"library": str(library), "rounds": rounds, **arguments}
    env = {
        "SWITCHML_FAILOVER": "1",
        "SWITCHML_TIMEOUT_MS": str(LIMIT_MS),
        "SWITCHML_CHUNK_NUMEL": "3000",
    }
    ranks = launch("plugin_devices:outlives", 2, arguments=arguments, env=env, **given)
    for result in results(ranks):
        report = result["report"]
        assert (report["failure"], report["failover"]["failovers"]) == ("", 1)
        assert report["failover"]["calls"] > 0
        assert report["calls"] + report["failover"]["calls"] == 5 * rounds


def check_late_device(
    launch: Launcher, library: Path, env: Mapping[str, str], timeout: float
) -> None:
    """Let rank 1's device compute its values for longer than the group's timeout."""
    arguments = {"library": str(library), "victim": 1}
    patient = {"SWITCHML_TEST_TIMEOUT": str(3 * timeout)} if env else {}
    ranks = launch(
        "plugin_devices:late",
        2,
        arguments=arguments,
        env=env,
        rank_env={0: patient},
        timeout=timeout,
    )
    other, late = results(ranks)
    assert f"the device did not have the values within {round(1000 * timeout)} ms" in late["why"]
    assert (messages.GONE.format(1) if env else messages.FAILED) in other["why"]
