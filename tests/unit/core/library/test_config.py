"""switchml.cfg as it is read and written."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from patchgen.core.library import config
from patchgen.core.library.settings import DEFAULTS
from patchgen.errors import OptionsError
from patchgen.extras.lab.simulator import compose_simulated


def test_values_as_boost_reads_them() -> None:
    text = """\
# a comment
[general]
rank=0   # another
  num_workers =  2
backend = dpdk
[backend.dpdk]
extra_eal_options = --log-level=5 a=b
"""
    assert config.parse(text) == {
        "general.rank": "0",
        "general.num_workers": "2",
        "general.backend": "dpdk",
        "backend.dpdk.extra_eal_options": "--log-level=5 a=b",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[general]\nrank 0\n", "line 2 is no 'key = value'"),
        ("[general]\nrank = 0\nrank = 1\n", "line 3 gives general.rank again"),
    ],
)
def test_what_boost_refuses(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        compose_simulated(rank=3, workers=7),
        "general.rank = 3\ngeneral.num_workers=7\n[backend.dummy]\nrank = 5\n",
        "[general]\npacket_numel = 256\n",
        "[backend.dummy]\nbandwidth = 1\n[general] # ours\n rank=1 # one\n",
        "",
    ],
)
def test_each_rank_fills_in_its_number(text: str) -> None:
    before, after = config.parse(text), config.parse(config.without_numbers(text))
    assert after == {
        key: value
        for key, value in before.items()
        if key not in {"general.rank", "general.num_workers"}
    }


def test_what_is_written_is_read(tmp_path: Path) -> None:
    for text in (compose_simulated(rank=2, workers=5), config.compose_dummy(2, 5)):
        found = config.parse(text)
        assert (found["general.rank"], found["general.num_workers"]) == ("2", "5")
        assert found.get("general.backend", DEFAULTS["general.backend"]) == "dummy"
    path = str(tmp_path / "switchml.cfg")
    text = "# " + os.fsdecode(b"\xff") + "\n"
    config.save(path, text)
    assert config.load(path) == text


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_named(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "switchml.cfg"
    path.write_text("[general]\n", encoding=encoding)
    with pytest.raises(OptionsError, match=f"{path}: has a byte order mark; save it as UTF-8"):
        config.load(str(path))


# ---- of a library that is installed


@pytest.mark.parametrize(
    ("flags", "backend"),
    [((), "dummy"), (("DPDK", "MLX5"), "dpdk"), (("RDMA",), "rdma"), (("DEBUG",), "dummy")],
)
def test_the_configuration_of_a_library(flags: tuple[str, ...], backend: str) -> None:
    text = config.compose_installed(flags)
    found = config.parse(text)
    assert found["general.backend"] == backend
    assert int(found["general.timeout"]) >= 1000
    assert not {"general.rank", "general.num_workers"} & {*found}
    own = {key: value for key, value in found.items() if value == config.AUTO}
    assert [*own] == (["backend.dpdk.worker_ip", "backend.dpdk.cores"] if "DPDK" in flags else [])


def test_every_value_says_what_it_does() -> None:
    for flags in (("DPDK",), ("RDMA",), ()):
        message = ""
        for line in config.compose_installed(flags).splitlines():
            value = re.match(r"\w+ =", line)
            if value is None:
                message = line if line.startswith("#") else ""
            elif not message:
                # Of a pair, the line above the first is for both.
                assert line.split()[0] in {"controller_port", "burst_tx", "device_port_id"}, line
            message = message if value is None else ""
