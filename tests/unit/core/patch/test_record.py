from __future__ import annotations

import json

import pytest

from patchgen import __version__
from patchgen.core.patch import pins, record
from patchgen.options import resolve

PIN = pins.shipped()[0]


@pytest.mark.parametrize("home", ["/a", "/a b", "/ü", "/\udcff\udcfe", "/'#%{}", "/a@b"])
def test_round_trip(home: str) -> None:
    flags = {"dpdk": True, "mlx5": True, "debug": True}
    options = resolve({**flags, "switchml_home": home}, {}, "/x")
    line = record.dump(options, PIN)
    assert line.isascii()
    assert "\n" not in line
    found = record.parse(f"{record.PREFIX}{line}\nmore\n".encode())
    assert found == record.Record(PIN.name, __version__, options)


@pytest.mark.parametrize(
    "change",
    [
        {"dpdk": 1},
        {"switchml_home": None},
        {"switchml_home": "relative"},
        {"switchml_home": ""},
        {"switchml_home": "/a\nb"},
        {"switchml_home": "/\ud800"},
        {"dpdk": True, "rdma": True},
        {"surprise": 1},
        {"pin": 3},
        {"pin": "v1\x1b[1m"},
        {"version": "0.1\nmore"},
    ],
)
def test_what_is_not_a_record(change: dict[str, object]) -> None:
    data = {**json.loads(record.dump(resolve({}, {}, "/x"), PIN)), **change}
    assert record.parse(f"{record.PREFIX}{json.dumps(data)}\n".encode()) is None


def test_flags_that_are_not_known_or_not_there_are_not_set() -> None:
    options = resolve({"dpdk": True}, {}, "/x")
    data = {**json.loads(record.dump(options, PIN)), "later": True}
    del data["rdma"]
    line = f"{record.PREFIX}{json.dumps(data)}\n".encode()
    assert record.parse(line) == record.Record(PIN.name, __version__, options)


def test_a_record_of_another_version_need_have_nothing_that_this_one_has() -> None:
    line = f'{record.PREFIX}{{"pin": "v9", "version": "0.0", "later": 3}}\n'
    assert record.parse(line.encode()) == record.Record("v9", "0.0", None)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"# switchml-patch: ",
        b"# switchml-patch: []\n",
        b"# switchml-patch: {}\n",
        b"x # switchml-patch: {}\n",
        b"# switchml-patch: " + b"[" * 100_000,
    ],
)
def test_what_is_no_record_at_all(content: bytes) -> None:
    assert record.parse(content) is None
