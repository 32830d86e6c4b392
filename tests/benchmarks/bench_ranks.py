"""Cost of the patch: calls that stay with Gloo, and delegated calls against the bare library.

Run by `make bench`. Each benchmark prints the median ratio of alternating runs, and its spread.
"""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pairs import Comparison, compare, read_comparisons
from support.device import compile_options, link_options
from support.launcher import Launcher

from patchgen.core.patch import render
from patchgen.core.torch import probe_torch

PAIRS = 9


def show(name: str, comparison: Comparison, reference: str) -> None:
    print(f"\n{name}: {comparison.describe(reference, unit='us', per_second=1e6)}")


def time_ranks(launch: Launcher, arguments: dict[str, object], **given: Any) -> float:
    """Return the seconds of an allreduce on the slowest of two ranks."""
    ranks = launch("time_allreduce", 2, arguments=arguments, **given)
    return float(max(rank.result["seconds"] for rank in ranks))


def test_fallback(launch: Launcher) -> None:
    """Concurrent asynchronous float64 allreduces, which stay with Gloo, patched and unpatched."""
    arguments = {"numel": 256, "concurrent": 64, "rounds": 150, "dtype": "float64"}

    def seconds(*, preload: bool) -> float:
        return time_ranks(launch, arguments, preload=preload, fresh=True)

    found = compare(lambda: seconds(preload=True), lambda: seconds(preload=False), PAIRS)
    show("64 concurrent float64 allreduces, each", found, "unpatched torch")


@pytest.mark.parametrize(
    ("size", "concurrent", "rounds"),
    [("4 KiB", 1, 600), ("256 KiB", 1, 150), ("4 MiB", 4, 8), ("64 MiB", 1, 3), ("256 MiB", 1, 1)],
)
def test_failover(launch: Launcher, size: str, concurrent: int, rounds: int) -> None:
    """Failover without a failure copies each sum once, as the second reference does."""
    count, unit = size.split()
    numel = int(count) * {"KiB": 2**8, "MiB": 2**18}[unit]
    arguments = {"numel": numel, "concurrent": concurrent, "rounds": rounds, "dtype": "float32"}
    config = {"prepostprocessor": "cpu_exponent_quantizer"}

    def seconds(failover: str, *, copied: bool = False) -> float:
        given = {**arguments, "copied": copied}
        return time_ranks(launch, given, config=config, env={"SWITCHML_FAILOVER": failover})

    for reference, copied in (("without it", False), ("without it, and a copy", True)):
        found = compare(partial(seconds, "1"), partial(seconds, "0", copied=copied), PAIRS)
        show(f"failover, {concurrent} of {size}", found, reference)


def test_pieces(torch_python: Path, tmp_path: Path) -> None:
    """Conversion of bfloat16 through reused memory, compared with new memory for each call."""
    torch = probe_torch(str(torch_python), os.environ).require_gloo()
    header = "SwitchMLCodec.hpp"
    (tmp_path / header).write_text(render.text(f"patch/{header}"), encoding="utf-8")
    source = Path(__file__).with_name("rows.cpp")
    command = ["g++", *compile_options(torch), "-O3", f"-I{tmp_path}", str(source), "-pthread"]
    subprocess.run([*command, "-o", tmp_path / "rows", *link_options(torch)], check=True)
    for size in (2**20, 2**22, 2**24, 2**25):
        found = read_comparisons(subprocess.check_output([tmp_path / "rows", str(size)], text=True))
        show(f"{size >> 20} Mi of bfloat16 to float32 and back", found["pieces"], "new memory")


@pytest.fixture(scope="module")
def direct(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Program that calls the client library directly."""
    out = tmp_path_factory.mktemp("direct") / "direct"
    source = Path(__file__).parent / "direct.cpp"
    libraries = [f"-L{home}/lib", "-lswitchml-client", "-lglog", "-lboost_program_options"]
    command = ["g++", "-std=c++17", "-O3", f"-I{home}/include", str(source), "-o", str(out)]
    subprocess.run([*command, *libraries, "-pthread"], check=True)
    return out


@pytest.mark.parametrize(("size", "rounds"), [("4 KiB", 1000), ("16 MiB", 10)])
def test_delegated(launch: Launcher, direct: Path, size: str, rounds: int) -> None:
    numel = {"4 KiB": 2**10, "16 MiB": 2**22}[size]
    config = {"prepostprocessor": "cpu_exponent_quantizer"}
    arguments = {"numel": numel, "concurrent": 1, "rounds": rounds, "dtype": "float32"}

    def through_torch() -> float:
        return time_ranks(launch, arguments, config=config, fresh=True)

    def bare() -> float:
        run = launch.prepare(2, config=config)
        processes = [
            subprocess.Popen(
                [direct, str(numel), str(rounds)], cwd=run / str(rank), stdout=subprocess.PIPE
            )
            for rank in range(2)
        ]
        return max(float(process.communicate()[0]) for process in processes)

    found = compare(through_torch, bare, PAIRS)
    show(f"delegated allreduce of {size}", found, "the client library")
