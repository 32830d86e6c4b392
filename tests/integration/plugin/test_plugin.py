"""What is the plugin's own: the wheel, and a process group that is not Gloo's."""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version
from support import messages
from support.launcher import Launcher
from support.torch import Plugin, launcher_of, located, results
from support.waiting import GROUP, SHORT

from patchgen.system.ports import free_port

CASES = Path(__file__).parents[2] / "payload" / "plugin_cases.py"
COLLECTIVES = re.findall(r"^def (collective_\w+)\(switchml\)", CASES.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def version(plugin: Plugin) -> Version:
    """The release of torch."""
    code = "from importlib.metadata import version; print(version('torch'))"
    output = subprocess.check_output([plugin.python, "-c", code], text=True)
    return Version(Version(output.strip()).public)


@pytest.fixture
def sharding(version: Version) -> None:
    """Skips where weights on the CPU cannot be sharded."""
    if version < Version("2.9"):
        pytest.skip("fully_shard of CPU tensors fails in torch 2.6: name 2.9 or newer by TORCH")


def test_wheel(plugin: Plugin, version: Version, home: Path) -> None:
    """pip has installed it, so its RECORD is right; nothing in it tells where it was built."""
    assert plugin.wheel.name.startswith(f"torch_switchml-{version}+switchml-cp")
    with zipfile.ZipFile(plugin.wheel) as archive:
        names = archive.namelist()
        (library,) = (name for name in names if name.startswith("torch_switchml/_C."))
        content = archive.read(library)
        (metadata,) = (name for name in names if name.endswith("/METADATA"))
        (required,) = re.findall(r"Requires-Dist: torch===?(.*)", archive.read(metadata).decode())
        assert Version(Version(required).public) == version
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert content.startswith(b"\x7fELF")
    assert b"switchml-cmake-" not in content, "the directory of the build"
    assert bytes(home) not in content
    assert bytes(located(plugin.torch).resolve()) not in content


def test_symbols_are_its_own(plugin: Plugin) -> None:
    """Another copy of the delegate in the process does not take the place of the plugin's."""
    (library,) = plugin.package.glob("_C.*.so")
    defined = subprocess.check_output(["nm", "-D", "--defined-only", library], text=True)
    assert [line.split()[-1] for line in defined.splitlines()] == ["PyInit__C"]


def test_report_without_a_group_and_of_what_is_no_utf8(light: Plugin) -> None:
    """The environment and configurations are bytes, and the group's line quotes them."""
    code = (
        "import os; os.environb[b'SWITCHML_MIN_NUMEL'] = b'\\xff'\n"
        "import torch_switchml as t; print(t.is_patched(), t.report()['flags'] == '')\n"
        "import torch.distributed as dist\n"
        "dist.init_process_group('switchml', store=dist.HashStore(), rank=0, world_size=1)\n"
        "print(ascii(t.report()['group']))\n"
    )
    output = subprocess.check_output([light.python, "-c", code], text=True)
    assert output.startswith("True True\n")
    assert messages.NO_NUMBER.format("SWITCHML_MIN_NUMEL", "?", "elements") in output


@pytest.fixture
def first_core() -> str:
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        pytest.skip("needs two cores")
    return str(min(cores))


# One thread, and so one core, for each rank.
DPDK = {
    "backend": "dpdk",
    "num_worker_threads": "1",
    "process_packets": "true\n[backend.dpdk]\ncores = auto\nworker_ip = interface:lo",
}


def test_cores_where_openmp_binds_a_thread(light_launch: Launcher, first_core: str) -> None:
    """The ranks take cores of their processes, and say where the program's thread is on one.

    tests/cpp/filling.cpp has all variables that bind threads.
    """
    name = "OMP_PROC_BIND"
    env = {name: "true"}
    ranks = light_launch("sums", 2, arguments={"sizes": [1000]}, config=DPDK, env=env, fresh=True)
    found = {}
    for result in results(ranks):
        core, _, words = str(result["report"]["filled_in"]).partition("cores=")[2].partition(" ")
        found[core] = words
    assert len(found) == 2
    for core, words in found.items():
        bound = f"(a thread is bound there by {name}={env[name]})"
        assert (bound in words) is (core == first_core)


def test_cores_where_openmp_binds_the_launcher(
    light_launch: Launcher, first_core: str, tmp_path: Path
) -> None:
    """The ranks inherit one core from torchrun."""
    env = {"GOMP_CPU_AFFINITY": first_core}
    torchrun = launcher_of(light_launch.python, tmp_path)
    (log,) = light_launch.torchrun("sums", 2, torchrun, {"sizes": [1]}, config=DPDK, env=env)
    assert log.out.count('"delegating": true') == 2, log.out + log.err
    assert len({*re.findall(r"worker_ip=127.0.0.1 cores=(\d+)", log.out)}) == 2


@pytest.mark.parametrize(
    ("case", "world", "arguments"),
    [
        ("barrier_waits", 3, {}),
        ("barriers_in_callbacks", 2, {"number": 20}),
        ("callbacks", 2, {"number": 30}),
        ("destroyed", 2, {"store": ""}),
        ("dropped_in_callback", 2, {"store": ""}),
        ("forked", 2, {}),
        ("names", 2, {"store": ""}),
        ("never_blocks", 3, {"number": 60}),
    ],
)
def test_case(
    launch: Launcher, case: str, world: int, arguments: dict[str, Any], tmp_path: Path
) -> None:
    """The assertions are in the case."""
    if "store" in arguments:
        arguments = {"store": str(tmp_path)}
    results(launch(f"plugin_cases:{case}", world, arguments=arguments))


@pytest.mark.parametrize(
    ("prepostprocessor", "chunk"), [("bypass", 100), ("cpu_exponent_quantizer", 2**20)]
)
@pytest.mark.parametrize("case", COLLECTIVES)
def test_collective(launch: Launcher, case: str, prepostprocessor: str, chunk: int) -> None:
    config = {"prepostprocessor": prepostprocessor}
    env = {"SWITCHML_CHUNK_NUMEL": str(chunk)}
    results(launch(f"plugin_cases:{case}", 3, config=config, env=env))


def test_coalesced_reduce_scatter(launch: Launcher, version: Version) -> None:
    if version < Version("2.1"):
        pytest.skip("reduce_scatter_tensor is coalesced since torch 2.1: name another one by TORCH")
    results(launch("plugin_cases:reduce_scattered_together", 3))


@pytest.mark.parametrize("failover", [False, True], ids=["alone", "failover"])
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("call", messages.LATE.format(2000)),
        ("group", messages.LATE.format(2000)),
        ("abort", messages.ABORTED),
    ],
)
def test_limit_of_a_call_and_of_a_group(
    launch: Launcher, version: Version, how: str, message: str, *, failover: bool
) -> None:
    """The group was made with a minute. Gloo has the same limit, once the ranks go on over it."""
    if how != "call" and version < Version("2.8"):
        pytest.skip("groups can be aborted and limited since torch 2.8: name another one by TORCH")
    env = {"SWITCHML_FAILOVER": "1"} if failover else {}
    ranks = launch("plugin_cases:lonely", 2, arguments={"how": how}, env=env)
    result = ranks[0].result
    assert messages.FAILED in result["error"]
    assert message in result["error"] or (failover and how != "abort")
    assert how != "abort" or message in result["again"]
    assert result["elapsed"] < GROUP


def test_a_barrier_fails_with_what_is_before_it(launch: Launcher) -> None:
    ranks = results(launch("plugin_cases:barrier_fails", 2, timeout=SHORT))
    assert messages.FAILED in ranks[0]["error"]
    assert ranks[1]["error"] == ""


@pytest.mark.usefixtures("sharding")
@pytest.mark.parametrize("case", ["meshes", "sharded"])
def test_meshes(launch: Launcher, case: str) -> None:
    """The assertions are in the case."""
    results(launch(f"plugin_meshes:{case}", 2))


@pytest.mark.usefixtures("sharding")
def test_hybrid_sharded_training(launch: Launcher) -> None:
    ports = [free_port(), free_port()]
    configs = {
        rank: {"num_workers": 2, "rank": rank // 2, "controller_port": ports[rank % 2]}
        for rank in range(4)
    }
    results(launch("plugin_meshes:hybrid", 4, per_rank=configs))


def test_communication_hooks(launch: Launcher) -> None:
    for result in results(launch("plugin_cases:hooks", 2)):
        plain, halves, factors = result["counted"]
        assert plain == 4
        assert halves == 4
        assert factors > 8, "PowerSGD sums in the callbacks of its own sums"


@pytest.mark.parametrize("preload", [True, False], ids=["plugin", "stock"])
def test_group_of_a_model_that_outlives_it(launch: Launcher, *, preload: bool) -> None:
    """The model drops it with the GIL held, which Gloo's threads may wait for; ours may not."""
    for rank in launch("ends_in_use", 2, arguments={"held": not preload}, preload=preload):
        assert rank.code == 0, rank.err


def test_end_of_the_program_with_work_in_flight(launch: Launcher) -> None:
    number = 30
    for rank in launch("plugin_cases:unwaited", 2, arguments={"number": number}, fresh=True):
        assert rank.code == 0, rank.err
        assert rank.out.count("CALLED") == number
