"""The blocks of code of the pages: README, CONTRIBUTING and docs.

A fenced block of ```text is not code: output, or a file. A block that no test runs has a comment
before it, which says why:

    <!-- not run: it needs root -->

One that a test of its own runs names its file:

    <!-- run by: tests/integration/cluster/test_page.py -->

The others are run by tests/integration/test_pages.py, and those of Python on ranks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(
    r"^(?:<!-- (?:not run: (?P<reason>[^\n]+)|run by: (?P<by>[^\n]+)) -->\n+)?(?:"
    r"```(?P<language>\w*)\n(?P<fenced>.*?)^```$|"
    r"(?<=\n\n)(?P<indented>(?: {4}[^\n]*\n|\n(?= {4}))+))",
    re.MULTILINE | re.DOTALL,
)
_PROMPT = re.compile(r"^\$ ", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str
    reason: str
    """Reason that no test runs it, or nothing."""
    by: str = ""
    """File of the test that runs it, or nothing where all blocks of its kind are run."""

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"

    @property
    def is_code(self) -> bool:
        return self.language != "text"

    @property
    def unmarked(self) -> bool:
        """True where it is run as all blocks of its kind are."""
        return not self.reason and not self.by

    @property
    def commands(self) -> list[str]:
        """Lines for a shell; those after "$ " where there are such."""
        if self.language:
            return []
        lines = self.text.replace("\\\n", " ").splitlines()
        if _PROMPT.search(self.text):
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        return [line for line in lines if line.strip()]


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        kind = "indented" if found["fenced"] is None else "fenced"
        line = text.count("\n", 0, found.start(kind)) + 1
        reason, language = found["reason"] or "", found["language"] or ""
        yield Block(page, line, language, dedent(found[kind]), reason, found["by"] or "")


def all_blocks() -> list[Block]:
    """Return the blocks of code of all pages."""
    return [block for page in PAGES for block in blocks(page) if block.is_code]


def run_by(test: str) -> list[Block]:
    """Return the blocks that name a test file."""
    return [block for block in all_blocks() if block.by and (ROOT / block.by).samefile(test)]
