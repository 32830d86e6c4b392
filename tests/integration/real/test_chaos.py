"""Trainings with the real client library that seeded events disturb; see `make chaos`."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.chaos.report import check, prepare
from support.chaos.wired import Wired
from support.real import LabLauncher
from support.wired import on_hosts, wired_hosts

WORLD = 3


def test_a_training_outlives_all_events(
    by_plugin: LabLauncher,
    switch: str,
    controller: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    option = request.config.getoption
    with wired_hosts(WORLD, shared=True) as network:
        launch = on_hosts(by_plugin, network)
        around = Wired(network, switch, controller, tmp_path / "switch.log")
        check(prepare(request, launch, around, WORLD), option("--seed"), option("--events"))
