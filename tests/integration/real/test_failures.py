"""Failures between ranks with the real client library: with failover they go on, or all raise.

The ranks are on hosts with a wire each to the switch, and SwitchML's own controller is before it.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from support import messages
from support.chaos.wired import Wired
from support.group_checks import EITHER
from support.launcher import Rank
from support.real import LabLauncher
from support.torch import results
from support.wired import LAN, WIRE, HostLauncher, on_hosts, wired_hosts

WORLD = 2
VICTIM = 1
PATIENCE = 8  # seconds, the timeout of the group
TIMEOUT = 3000  # milliseconds
LATE = messages.LATE.format(TIMEOUT)
HOUR = 3600  # seconds


@dataclass(frozen=True)
class Around:
    """Ranks on hosts, and the switch that they have."""

    launch: HostLauncher
    switch: Wired
    world: int

    limit: float = TIMEOUT / 1000
    patience: float = PATIENCE

    def run(self, case: str, env: dict[str, str], arguments: dict[str, Any]) -> list[Rank]:
        """Runs a case, whose allreduces have a limit."""
        return self.launch(
            case,
            self.world,
            env={"SWITCHML_TIMEOUT_MS": str(round(1000 * self.limit)), **env},
            config=self.switch.config,
            arguments=arguments,
            timeout=self.patience,
        )

    def break_by(self, command: Sequence[str], env: dict[str, str], *, goes_on: bool) -> list[Rank]:
        """Runs ranks of which one runs a command between its sums."""
        arguments = {"victim": VICTIM, "command": command, "goes_on": goes_on}
        return self.run("breaks", env, arguments=arguments)


@pytest.fixture
def around(
    request: pytest.FixtureRequest,
    by_plugin: LabLauncher,
    switch: str,
    controller: Path,
    tmp_path: Path,
) -> Iterator[Around]:
    """Two ranks, or the parameter's number of them."""
    world = getattr(request, "param", WORLD)
    with wired_hosts(world, shared=True) as network, contextlib.ExitStack() as stack:
        wired = Wired(network, switch, controller, tmp_path / "switch.log")
        stack.callback(wired.close)
        wired.start()
        yield Around(on_hosts(by_plugin, network), wired, world)


def check_over_gloo(ranks: list[Rank]) -> None:
    """All sums were right, and the ranks have failed over once."""
    for result in results(ranks):
        over = result["report"]["failover"]
        assert (result["report"]["failure"], over["failovers"]) == ("", 1)
        assert over["calls"] > 0
        assert over["reason"].endswith(LATE)
        assert result["elapsed"] < TIMEOUT / 1000 + 20  # ten times what a failover takes after it


def check_raised(ranks: list[Rank], why: str = "", most: int = 20) -> None:
    """The first sum took as long as its limit, and the next one no time."""
    for result in results(ranks):
        assert result["first"].startswith(messages.FAILED)
        assert ": the allreduce of 1000 float32 elements" in result["first"]
        assert LATE + why in result["first"]
        assert result["second"] == result["first"]
        assert TIMEOUT / 1000 <= result["elapsed"] < most
        assert result["second_elapsed"] < 1
        assert result["report"]["failure"]


@EITHER
@pytest.mark.parametrize("how", ["killed", "stopped", "cut off"])
def test_the_switch(around: Around, how: str, env: dict[str, str]) -> None:
    number = str(around.switch.processes["switch"])
    command = {
        "killed": ["kill", "-KILL", number],
        "stopped": ["kill", "-STOP", number],
        "cut off": ["ip", "link", "set", WIRE, "down"],  # for one of the ranks
    }[how]
    ranks = around.break_by(command, env, goes_on=bool(env))
    if env:
        check_over_gloo(ranks)
    else:
        check_raised(ranks)


@EITHER
def test_the_controller_killed(around: Around, env: dict[str, str]) -> None:
    """A group that delegates needs it no more."""
    command = ["kill", "-KILL", str(around.switch.processes["controller"])]
    for result in results(around.break_by(command, env, goes_on=True)):
        report = result["report"]
        assert (report["failure"], report["failover"]["failovers"]) == ("", 0)
        assert report["calls"] == 6 * 4 + 1  # all of them


@EITHER
@pytest.mark.parametrize("around", [3], indirect=True)
def test_a_rank_dies(around: Around, env: dict[str, str]) -> None:
    """The others need not wait for their limit to learn which one it is."""
    patient = replace(around, limit=HOUR, patience=HOUR)
    ranks = patient.run("dies", env, {"victim": VICTIM})
    assert ranks[VICTIM].code == -signal.SIGKILL
    for rank in (ranks[0], ranks[2]):
        assert " cannot finish: " + messages.GONE.format(VICTIM) in rank.result["first"]
        assert rank.result["elapsed"] < 60


@EITHER
@pytest.mark.parametrize("around", [3], indirect=True)
def test_a_rank_is_late(around: Around, env: dict[str, str]) -> None:
    """One that lives is awaited for as long as the limit."""
    patient = replace(around, limit=HOUR, patience=HOUR)
    for result in results(patient.break_by(["sleep", "15"], env, goes_on=True)):
        report = result["report"]
        assert (report["failure"], report["failover"]["failovers"]) == ("", 0)


@EITHER
def test_no_network_at_all(around: Around, env: dict[str, str]) -> None:
    command = ["sh", "-c", f"ip link set {WIRE} down; ip link set {LAN} down"]
    ranks = around.break_by(command, env, goes_on=False)
    if env:  # the other rank has the group's timeout for its warning, and again for its answer
        check_raised(ranks, f"; {messages.STUCK}rank ", 20 + PATIENCE)
    else:
        check_raised(ranks)


@EITHER
def test_the_program_aborts_the_group(around: Around, env: dict[str, str]) -> None:
    result = around.run("plugin_cases:lonely", env, arguments={"how": "abort"})[0].result
    assert messages.FAILED + messages.ABORTED in result["error"]
    assert result["elapsed"] < TIMEOUT / 1000
