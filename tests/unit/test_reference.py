"""docs/reference.md is what the program says of itself."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_reference_is_what_the_program_says() -> None:
    written = (ROOT / "docs" / "reference.md").read_text()
    assert written == runpy.run_path(str(ROOT / "docs" / "reference.py"))["text"](), "run make docs"
