"""The lab around ranks: the switch's arguments, its life, and what is told of its counters."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest
from support.waiting import has_ended

from patchgen.core.library import config
from patchgen.extras.lab import lab

# Takes the place of the switch: it listens nowhere, and counts its arguments.
SERVER = """
import json, os, signal, sys, time
path = sys.argv[sys.argv.index("--json") + 1]
def end(*_):
    with open(path, "w") as file:
        json.dump({"workers": [], "pid": os.getpid(), "arguments": sys.argv[1:]}, file)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print(json.dumps({"listening": "127.0.0.1:4711"}), flush=True)
time.sleep(600)
"""


def program(tmp_path: Path, code: str) -> str:
    path = tmp_path / "a switch"
    path.write_text(f"#!{sys.executable}\n{code}")
    path.chmod(0o755)
    return str(path)


def test_the_switch_runs_as_long_as_the_block(tmp_path: Path) -> None:
    faults = lab.Faults(loss=0.02, delay=1.5, seed=7)
    with lab.running(program(tmp_path, SERVER), 3, faults) as running:
        assert running.port == 4711
        assert "controller_port = 4711" in running.config
        assert f"socket={running.directory}/port-${{SWITCHML_LAB_RANK}}," in running.config
        assert running.variables["SWITCHML_LAB_RANK"][:3] == ["0", "1", "2"]
        assert os.path.isdir(running.directory)
    assert not os.path.exists(running.directory)
    assert has_ended(running.counters["pid"])
    given = running.counters["arguments"]
    options = [*zip(given[::2], given[1::2])]
    assert options[0] == ("--listen", "127.0.0.1:0")
    assert options[2:5] == [("--loss", "0.02"), ("--delay", "1.5"), ("--seed", "7")]
    ports = [("--port", f"memif:{running.directory}/port-{rank}") for rank in range(3)]
    assert options[5:] == ports


def test_a_number_of_ranks_that_is_not_known(tmp_path: Path) -> None:
    with lab.running(program(tmp_path, SERVER), 0, lab.Faults()) as running:
        pass
    assert running.counters["arguments"].count("--port") == lab.MOST


@pytest.mark.parametrize("name", ["a b", "c,d", "[e]", "#f", "x" * 120])
def test_a_path_that_dpdk_cannot_be_given(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / name
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    with lab.running(program(tmp_path, SERVER), 1, lab.Faults()) as running:
        assert not running.directory.startswith(str(tmp_path))
        assert len(running.directory) < 80
    assert [*place.iterdir()] == []


def test_ranks_take_the_processors_in_turn(tmp_path: Path) -> None:
    numbers = [*map(str, sorted(os.sched_getaffinity(0)))]
    with lab.running(program(tmp_path, SERVER), 1, lab.Faults()) as running:
        cores = running.variables["SWITCHML_LAB_CORE"]
    assert len(cores) == lab.MOST
    assert cores[: len(numbers) + 1] == (numbers * 2)[: len(numbers) + 1]


def compose_lab(rank: int) -> dict[str, str]:
    device = f"net_memif0,socket=/place/port-{rank},"
    return config.parse(lab.compose(device, 4711, rank=str(rank), cores="1", timeout=3))


def test_it_sums_and_each_rank_has_its_own_port_and_address() -> None:
    ranks = [compose_lab(rank) for rank in range(3)]
    for rank in ranks:
        assert not {"general.rank", "general.num_workers"} & {*rank}
        assert rank["general.backend"] == "dpdk"
        assert "--no-huge" in shlex.split(rank["backend.dpdk.extra_eal_options"])
    for key in ("backend.dpdk.worker_ip", "backend.dpdk.extra_eal_options"):
        assert len({rank[key] for rank in ranks}) == 3
    for key in ("general.controller_port", "general.timeout", "backend.dpdk.worker_port"):
        assert len({rank[key] for rank in ranks}) == 1


def test_dpdk_gets_its_options_as_words() -> None:
    options = compose_lab(1)["backend.dpdk.extra_eal_options"]
    assert shlex.split(options) == options.split(" ")
    assert "socket=/place/port-1," in options
    assert "--in-memory" not in options  # does not go with --no-huge
