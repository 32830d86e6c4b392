"""The aggregator of its own: what a configuration says of it, and what it tells."""

from __future__ import annotations

from typing import Any

import pytest

from patchgen.core.library import config
from patchgen.errors import OptionsError
from patchgen.extras.lab.simulator import aggregator, compose_simulated
from patchgen.system.ports import NO_ADDRESS


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [("10.0.0.9:5000", "10.0.0.9", "5000"), ("[::1]:1", "::1", "1"), ("sw:65535", "sw", "65535")],
)
def test_a_configuration_names_it(address: str, host: str, port: str) -> None:
    values = config.parse(compose_simulated(aggregator=address))
    assert values["general.controller_ip"] == host
    assert values["general.controller_port"] == port
    assert values["backend.simulator.external_aggregator"] == "true"


def test_without_it_the_configuration_is_also_for_the_real_library() -> None:
    values = config.parse(compose_simulated(controller_port=7))
    assert values["general.controller_port"] == "7"
    assert {key.rpartition(".")[0] for key in values} == {"general", "backend.dummy"}


@pytest.mark.parametrize("address", ["", "host", ":5", "host:", "host:0", "host:65536", "host:x"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(OptionsError, match=NO_ADDRESS):
        compose_simulated(aggregator=address)


def counters(**changes: Any) -> dict[str, Any]:
    workers = [{"rank": rank, "joined": 0, "received": 0, "sent": 0} for rank in range(2)]
    return {
        "sessions": 0, "broken": 0, "refused": 0, "jobs": 0, "elements": 0, "workers": workers,
        **changes,
    }  # fmt: skip


def test_workers_that_came_have_a_table_and_faults_are_reported() -> None:
    assert [*aggregator.lines(counters())] == ["0 sessions, 0 sums of 0 elements"]
    workers = [{"rank": 0, "joined": 2, "received": 12345, "sent": 678}, *counters()["workers"][1:]]
    lines = [
        *aggregator.lines(
            counters(workers=workers, sessions=2, broken=1, refused=1, jobs=1, elements=5000)
        )
    ]
    assert lines[0].split() == ["rank", "joined", "bytes", "in", "bytes", "out"]
    assert lines[2].split() == ["0", "2", "12,345", "678"]
    assert lines[3:] == [
        "", "2 sessions, 1 of them ended by a fault, 1 sum of 5,000 elements, 1 worker refused",
    ]  # fmt: skip
