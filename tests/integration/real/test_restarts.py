"""Ranks with the real client library are killed at any moment: the job starts again."""

from __future__ import annotations

from pathlib import Path

from support.real import LabLauncher, one_file
from support.restarts import WORLD, by_run, by_torchrun, check_goes_on, plan_kills
from support.sml_controller import controlled_lab

SEED = 4


FAILOVER = {"SWITCHML_FAILOVER": "1", "SWITCHML_TIMEOUT_MS": "5000"}


def test_the_labs_switch(by_plugin: LabLauncher, tmp_path: Path) -> None:
    """The switch stays, and its controller has the session of the dead."""
    cache = Path(by_plugin.switch).parents[2]
    lab = ("--lab", "--variant=plugin", "--dpdk", "--switchml-home", by_plugin.home)
    command = by_run("--torch", by_plugin.python, *lab, "--cache", cache)
    check_goes_on(command, tmp_path, "gloo", plan_kills(SEED), **FAILOVER)


def test_switchmls_own_controller(by_plugin: LabLauncher, controller: Path, tmp_path: Path) -> None:
    """Switch and controller stay, and both have the session of the dead."""
    with controlled_lab(by_plugin.switch, controller, WORLD) as running:
        config = tmp_path / "switchml.cfg"
        config.write_text(one_file(running, timeout=running.timeout))
        check_goes_on(
            by_torchrun(by_plugin.python),
            tmp_path,
            "switchml",
            plan_kills(SEED + 1),
            SWITCHML_CONFIG=str(config),
            SWITCHML_REQUIRE="1",
            TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1",
            **FAILOVER,
        )
