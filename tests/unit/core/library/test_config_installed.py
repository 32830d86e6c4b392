from __future__ import annotations

import re

import pytest

from patchgen.core.library import config


@pytest.mark.parametrize(
    ("flags", "backend"),
    [((), "dummy"), (("DPDK", "MLX5"), "dpdk"), (("RDMA",), "rdma"), (("DEBUG",), "dummy")],
)
def test_the_configuration_of_a_library(flags: tuple[str, ...], backend: str) -> None:
    text = config.compose_installed(flags)
    found = config.read(text)
    assert found.backend == backend
    assert int(found.values["general.timeout"]) >= 1000
    assert (found.rank, found.workers) == (None, None)
    own = {key: value for key, value in found.values.items() if value == config.AUTO}
    assert [*own] == (["backend.dpdk.worker_ip", "backend.dpdk.cores"] if "DPDK" in flags else [])


def test_every_value_says_what_it_does() -> None:
    for flags in (("DPDK",), ("RDMA",), ()):
        told = ""
        for line in config.compose_installed(flags).splitlines():
            value = re.match(r"\w+ =", line)
            if value is None:
                told = line if line.startswith("#") else ""
            elif not told:
                # Of a pair, the line above the first is for both.
                assert line.split()[0] in {"controller_port", "burst_tx", "device_port_id"}, line
            told = told if value is None else ""
