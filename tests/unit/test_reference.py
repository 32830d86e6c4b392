"""docs/reference.md is what the program says of itself."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_reference_is_what_the_program_says() -> None:
    written = (ROOT / "docs" / "reference.md").read_text()
    assert written == runpy.run_path(str(ROOT / "docs" / "reference.py"))["text"](), "run make docs"


def test_an_option_of_many_commands_has_one_row() -> None:
    rows = [line for line in (ROOT / "docs" / "reference.md").read_text().splitlines()
            if line.startswith("| `-")]  # fmt: skip
    assert len(rows) <= 250
    assert len([row for row in rows if row.startswith("| `--json")]) < 4
