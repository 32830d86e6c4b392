"""The aggregator under seeded inputs, beside a session whose sums must stay right."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.fuzz import INPUTS, compiled, counted

from patchgen.client import simulator

pytestmark = pytest.mark.integration

ROOT = Path(simulator.__file__).parent
SOURCES = [
    ROOT / "src" / f"{name}.cc"
    for name in (
        "aggregator", "connection", "group", "lobby", "plan", "protocol", "quantize", "reduce",
        "socket", "tally", "worker",
    )
]  # fmt: skip


def test_no_input_harms_a_session(tmp_path: Path) -> None:
    includes = [ROOT / "include" / "switchml", ROOT / "src"]
    found = counted(compiled(tmp_path, "simulator_fuzz.cc", SOURCES, includes))
    assert found["inputs"] == INPUTS
    assert found["sums beside them"] > INPUTS // 5
    assert found["refused"] > INPUTS // 5
    assert found["sessions of their own"] > INPUTS // 5
