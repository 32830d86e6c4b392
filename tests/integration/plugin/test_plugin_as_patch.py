"""Sums and failures of the patch's tests, with the plugin: ranks/test_group.py has more."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from support import messages
from support.group_checks import (
    check_failover,
    check_gradient_types,
    check_rank_killed,
    check_sums,
    check_sums_in_fewer_bits,
)
from support.launcher import Launcher
from support.waiting import LIMIT_MS, SHORT


@pytest.mark.parametrize(
    ("world", "prepostprocessor"), [(2, "bypass"), (3, "cpu_exponent_quantizer")]
)
def test_sums_are_true_and_delegated(launch: Launcher, world: int, prepostprocessor: str) -> None:
    check_sums(launch, world, prepostprocessor)


def test_gradients_of_every_type(launch: Launcher) -> None:
    check_gradient_types(launch, 3, "bypass", 700)


def test_sums_in_fewer_bits(launch: Launcher) -> None:
    check_sums_in_fewer_bits(launch, 3, 4, 512, skip=False)


def test_switch_stopped(launch: Launcher, summing: Path, tmp_path: Path) -> None:
    """No connection breaks, so the ranks wait for their limit."""
    check_failover(launch, summing, tmp_path, 2, "bypass", 2, number=signal.SIGSTOP)


def test_silent_rank(launch: Launcher) -> None:
    """Stop a rank for longer than its neighbours wait: these name it, not each other."""
    env = {"SWITCHML_FAILOVER": "1", "SWITCHML_TIMEOUT_MS": str(LIMIT_MS)}
    command = ["sh", "-c", f"(sleep {4 * SHORT}; kill -CONT $PPID) & kill -STOP $PPID"]
    arguments = {"victim": 2, "command": command, "goes_on": False}
    ranks = launch("breaks", 3, arguments=arguments, env=env, timeout=SHORT)
    for rank in ranks[:2]:
        for error in (rank.result["first"], rank.result["second"]):
            assert f"; {messages.STUCK}{messages.GONE.format(2)}" in error


def test_rank_killed(launch: Launcher) -> None:
    check_rank_killed(launch, 0)
