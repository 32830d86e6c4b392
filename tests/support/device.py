"""The simulated device of tests/cpp/staging, for ranks: tensors that are not in host memory."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgen.plugin import target
from patchgen.torch import probe_torch
from support.torch import results

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.launcher import Launcher

_TESTS = Path(__file__).parents[1]


def compile_device(python: Path, directory: Path) -> Path:
    """Compiles the library that makes torch.ops.simulated in the torch of an interpreter."""
    torch = probe_torch(str(python), os.environ).require_gloo()
    library = directory / "device.so"
    headers = [*torch.include_dirs, torch.python_include]
    command = [
        "clang++", f"-std=c++{target.inspect(torch).standard}", "-O0", "-shared", "-fPIC",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.cxx11_abi)}", f"-I{_TESTS / 'cpp' / 'staging'}",
        *(option for place in headers for option in ("-isystem", place)),
        str(_TESTS / "payload" / "device.cpp"), "-o", str(library),
        "-L", torch.lib_dir, "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{torch.lib_dir}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return library


def check_device_outlives(
    launch: Launcher, library: Path, arguments: Mapping[str, Any], **given: Any
) -> None:
    """The switch dies while tensors of a device are summed part by part."""
    rounds = arguments["dies"] + 3
    arguments = {"library": str(library), "rounds": rounds, **arguments}
    env = {"SWITCHML_FAILOVER": "1", "SWITCHML_TIMEOUT_MS": "2000", "SWITCHML_CHUNK_NUMEL": "3000"}
    ranks = launch("plugin_devices:outlives", 2, arguments=arguments, env=env, **given)
    for result in results(ranks):
        report = result["report"]
        assert (report["failure"], report["failover"]["failovers"]) == ("", 1)
        assert report["failover"]["calls"] > 0
        assert report["calls"] + report["failover"]["calls"] == 5 * rounds


def check_late_device(
    launch: Launcher, library: Path, env: Mapping[str, str], timeout: int
) -> None:
    """The device of rank 1 does not come to the values within the group's timeout."""
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
    assert f"the device did not have the values within {timeout}000 ms" in late["why"]
    assert ("rank 1 is gone" if env else "SwitchML allreduce failed: ") in other["why"]
