"""The aggregator under seeded inputs, beside a session whose sums must stay right."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.fuzz import INPUTS, compiled, counted
from support.simulator import LINK, sanitized_prefix

from patchgen.extras.lab import simulator

pytestmark = pytest.mark.integration

ROOT = Path(simulator.__file__).parent


def test_no_input_harms_a_session(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    prefix = sanitized_prefix(tmp_path_factory, "address")
    includes = [ROOT / "include" / "switchml", ROOT / "src"]
    program = compiled(tmp_path, "simulator_fuzz.cc", includes, f"-L{prefix}/lib", *LINK)
    found = counted(program)
    assert found["inputs"] == INPUTS
    assert found["sums beside them"] > INPUTS // 5
    assert found["refused"] > INPUTS // 5
    assert found["sessions of their own"] > INPUTS // 5
