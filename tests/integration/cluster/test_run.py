"""`switchml-patch run` over hosts, with torchrun's options and bare under SLURM and Open MPI."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import cluster, mpirun, run_hosts
from support.hosts import INTERFACE
from support.waiting import descendants, has_ended, until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.slurm import Slurm
    from support.torch import Plugin

RUN = (sys.executable, "-m", "patchgen", "run", "--require")


def begin(
    hosts: Sequence[cluster.Host],
    plugin: Plugin,
    tmp_path: Path,
    *options: str | Sequence[str],
    arguments: Sequence[str] = (),
) -> list[run_hosts.Command]:
    """Starts the program of the cluster's tests on each host."""
    command: list[str | Path] = [plugin.python, cluster.PROGRAM, tmp_path, *arguments]
    env = cluster.environment(TMPDIR=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "cache"))
    return run_hosts.begin_on(hosts, tmp_path, options, command, env)


def check(commands: Sequence[run_hosts.Command], tmp_path: Path) -> None:
    """Checks what the ranks have summed, and the table of the first host."""
    assert [command.code for command in commands] == [0, 0], [one.err for one in commands]
    found = cluster.read_records(tmp_path, 4)
    cluster.check_delegated(found, 2)
    expected = ["zeus", "zeus", "apollo", "apollo"]  # also c10d's order, which is by address
    assert [one["host"] for one in found] == expected
    for command in commands:
        told = command.report
        assert told["simulated"]
        assert [rank["host"] for rank in told["ranks"]] == expected
        assert all(rank["report"]["calls"] for rank in told["ranks"])
    table = [line.split()[:2] for line in commands[0].err.splitlines()[-4:]]
    assert table == [[str(rank), name] for rank, name in enumerate(expected)]


@pytest.mark.parametrize(
    "options",
    [pytest.param(["--node-rank={node}"], id="static", marks=pytest.mark.cluster),
     pytest.param(["--rdzv-backend=c10d"], id="c10d")],
)  # fmt: skip
def test_hosts_train_through_the_simulator_of_the_first(
    plugin: Plugin,
    two_hosts: list[cluster.Host],
    tmp_path: Path,
    options: Sequence[str],
) -> None:
    """The first host knows itself by an address of the loopback, as a new Debian does."""
    first, second = two_hosts
    names = tmp_path / "names of the first"
    names.write_text(f"127.0.0.1 localhost\n127.0.1.1 {first.name}\n")
    hosts = [replace(first, binds={"/etc/hosts": names}), second]
    commands = begin(hosts, plugin, tmp_path, *options)
    check(commands, tmp_path)
    where = f"the switch is simulated: a process on zeus adds, at {first.address}:"
    for command in commands:
        assert where in command.err
        assert "Traceback" not in command.err


@pytest.mark.cluster
def test_all_ranks_start_again_after_one_has_failed(
    plugin: Plugin, two_hosts: list[cluster.Host], tmp_path: Path
) -> None:
    options = ("--node-rank={node}", "--max-restarts=2")
    commands = begin(two_hosts, plugin, tmp_path, *options, arguments=["3"])
    check(commands, tmp_path)


@pytest.mark.cluster
def test_the_code_of_a_failed_rank_is_that_of_all_hosts(
    plugin: Plugin, two_hosts: list[cluster.Host], tmp_path: Path
) -> None:
    commands = begin(two_hosts, plugin, tmp_path, "--node-rank={node}", arguments=["3"])
    assert [command.code for command in commands] == [3, 3], [one.err for one in commands]
    for command in commands:
        assert "rank 3 on apollo failed with exit code 3" in command.err


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("ended", "end", "codes", "told"),
    [
        (0, "kill", [-signal.SIGKILL, 4], "host zeus is gone: its command was killed"),
        (1, "kill", [4, -signal.SIGKILL], "host apollo is gone: its command was killed"),
        (1, "terminate", [143, -signal.SIGTERM], "host apollo was told to end, by SIGTERM"),
        (1, "cut", [4, 4], "host apollo is gone: its command was killed, or cannot be reached"),
    ],
)
def test_no_process_is_left_where_a_host_ends_or_is_cut_off(
    plugin: Plugin,
    two_hosts: list[cluster.Host],
    tmp_path: Path,
    ended: int,
    end: str,
    codes: Sequence[int],
    told: str,
) -> None:
    """The ranks wait for nothing of each other, so only the hosts' connection shows the end.

    The process that adds is on the first host.
    """
    commands = begin(two_hosts, plugin, tmp_path, "--node-rank={node}", arguments=["wait"])
    for command in commands:
        until(lambda: len([*tmp_path.glob("*.pid")]) == 4, command.process)
    started = [pid for command in commands for pid in descendants(command.process.pid)]
    names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in started]
    assert len([name for name in names if "switchml-aggregator".startswith(name)]) == 1
    assert {path.stem for path in tmp_path.glob("*.pid")} <= {*map(str, started)}
    if end == "cut":
        down = two_hosts[1].command("ip", "link", "set", INTERFACE, "down")
        subprocess.run(down, check=True)
    else:
        getattr(commands[ended].process, end)()
    assert [command.code for command in commands] == codes, [one.err for one in commands]
    assert commands[1 - ended].last.startswith(f"error: {told}")
    if end == "cut":
        assert commands[1].last.startswith("error: host zeus is gone: ")
    assert all(has_ended(pid) for pid in started)


@pytest.mark.cluster
def test_hosts_with_another_plugin_are_named(
    plugin: Plugin, two_hosts: list[cluster.Host], tmp_path: Path
) -> None:
    ways = ("--way=stock", "--way=plugin")
    commands = begin(two_hosts, plugin, tmp_path, "--node-rank={node}", ways)
    assert [command.code for command in commands] == [6, 6], [one.err for one in commands]
    for command in commands:
        assert "way: stock on zeus, plugin on apollo" in command.err
    assert not [*tmp_path.glob("*.json")]


@pytest.mark.cluster
def test_bare_under_srun(nodes: Slurm, plugin: Plugin, tmp_path: Path) -> None:
    """Nodes and the first host's name come from SLURM."""
    env = cluster.environment(TMPDIR=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "cache"))
    command = [plugin.python, cluster.PROGRAM, tmp_path]
    done = nodes.srun("-N2", *RUN, "--nproc-per-node=2", "--", *command, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    cluster.check_delegated(cluster.read_records(tmp_path, 4), 2)
    names = [host.name for host in nodes.hosts]
    rows = [line.split()[:2] for line in done.stderr.splitlines() if line[:1].isdigit()]
    assert [row for row in rows if row[1] in names] == [
        [str(rank), names[rank // 2]] for rank in range(4)
    ]


@pytest.mark.cluster
def test_srun_with_several_commands_on_a_node(nodes: Slurm, plugin: Plugin, tmp_path: Path) -> None:
    done = nodes.srun("-N2", "-n4", *RUN, "--", plugin.python, cluster.PROGRAM, cwd=tmp_path)
    assert done.returncode == 2
    assert "srun has started 2 of this command on one host; start one on each" in done.stderr


@pytest.mark.cluster
def test_bare_under_mpirun(plugin: Plugin, two_hosts: list[cluster.Host], tmp_path: Path) -> None:
    env = cluster.environment(TMPDIR=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "cache"))
    command: list[str | Path] = [
        *RUN,
        "--nproc-per-node=2",
        "--",
        plugin.python,
        cluster.PROGRAM,
        tmp_path,
    ]
    done = mpirun.run(two_hosts, 1, command, tmp_path, env)
    assert done.returncode == 0, done.stderr
    found = cluster.read_records(tmp_path, 4)
    cluster.check_delegated(found, 2)
    assert [one["host"] for one in found] == ["zeus", "zeus", "apollo", "apollo"]
