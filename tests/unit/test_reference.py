"""docs/reference.md, and the README's table, are what the program says of itself."""

from __future__ import annotations

import runpy
from pathlib import Path

from patchgen.options import VARIABLES

ROOT = Path(__file__).parents[2]


def test_reference_is_what_the_program_says() -> None:
    written = (ROOT / "docs" / "reference.md").read_text()
    assert written == runpy.run_path(str(ROOT / "docs" / "reference.py"))["text"](), "run make docs"


def test_readme_has_every_variable() -> None:
    readme = (ROOT / "README.md").read_text()
    for variable in VARIABLES:
        assert f"| `{variable.name}` | `{variable.flag}` | " in readme
        assert f"| `{variable.default}` |" in readme or f"| {variable.default} |" in readme


def test_links_of_the_docs_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for part in page.read_text().split("](")[1:]:
            target = part.split(")")[0].split("#")[0]
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"
