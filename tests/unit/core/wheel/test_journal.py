"""A recorded value comes back as it was, or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import disks

from patchgen.core.wheel.values import BuiltWheel, Configured, Objects, Verified
from patchgen.core.wheel.workspace import Journal

VALUES = (
    Configured("of the toolchain", "of the variables", "1.7.1+switchml"),
    Objects("of all"),
    BuiltWheel("torch-1.7.1-cp37-cp37m-linux_x86_64.whl", "a" * 64, 12),
    Verified(("import", "sums")),
)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_comes_back(tmp_path: Path, value: Any) -> None:
    Journal(str(tmp_path)).put(value, "inputs")
    again = Journal(str(tmp_path))
    assert again.get(type(value)) == value
    assert again.get(type(value), "inputs") == value
    assert again.get(type(value), "others") is None
    again.drop(type(value))
    assert Journal(str(tmp_path)).get(type(value)) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version": 1}',
        '{"version": 2, "stages": {}}',
        '{"version": 1, "stages": {"wheel": []}}',
        '{"version": 1, "stages": {"wheel": {"inputs": "x"}}}',
        '{"version": 1, "stages": {"wheel": {"inputs": "x", "made": {"name": "x"}}}}',
    ],
)
def test_what_cannot_be_understood_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    journal = Journal(str(tmp_path))
    assert journal.get(BuiltWheel) is None
    journal.put(VALUES[2], "inputs")
    assert Journal(str(tmp_path)).get(BuiltWheel) == VALUES[2]


def test_a_value_that_cannot_be_written_leaves_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Journal(str(tmp_path)).put(VALUES[1], "inputs")
    disks.fill(monkeypatch)
    with pytest.raises(OSError, match="No space left"):
        Journal(str(tmp_path)).put(VALUES[2], "inputs")
    assert Journal(str(tmp_path)).get(Objects) == VALUES[1]


def test_what_is_recorded_is_plain_json(tmp_path: Path) -> None:
    Journal(str(tmp_path)).put(VALUES[3], "inputs")
    assert json.loads((tmp_path / "state.json").read_text()) == {
        "version": 1,
        "stages": {
            "verify": {
                "inputs": "inputs",
                "made": {"checks": ["import", "sums"], "network": "host"},
            }
        },
    }
