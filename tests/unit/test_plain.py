"""ci/plain.py, which the lint runs: docstrings and names that a reader has to translate."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "ci" / "plain.py"
HITS = runpy.run_path(str(PROGRAM))["hits"]


@pytest.mark.parametrize(
    "words",
    ["Of the patch.", "What the linker is told.", "Likewise", "Whether it is.", "As it is"],
)
def test_a_docstring_that_begins_with_something_else_is_listed(words: str) -> None:
    for text in (
        f'"""{words}"""',
        f'class Lock:\n    """{words}\n\n    More.\n    """',
        f'class Lock:\n    path: str\n    """{words}"""',
        f'async def read() -> None:\n    """{words}"""',
        f'def read() -> None:\n    """\n    {words}\n    """',
    ):
        assert [found for _, found in HITS(text)] == [words]


def test_a_docstring_that_begins_with_a_thing_or_a_verb_is_not_listed() -> None:
    for words in ("Path of the lock file.", "Reads the lock.", "Notes.", "Ofset.", "Origin"):
        assert [*HITS(f'"""{words}"""')] == []
    assert [*HITS('text = """Of a value."""\nread("""What it is""")')] == []


@pytest.mark.parametrize("name", ["said", "_told", "of", "Made", "__kept__"])
def test_a_name_without_an_object_is_listed(name: str) -> None:
    for kind in ("def {}(): ...", "class {}: ...", "class A:\n    async def {}(self): ..."):
        assert [found for _, found in HITS(kind.format(name))] == [f"def {name}"]
    assert [*HITS(f"def read_{name}(): ...\n{name} = 1")] == []
