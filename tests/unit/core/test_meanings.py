"""The table of errors of programs: each of its texts is found, by its own row."""

from __future__ import annotations

import pytest

from patchgen.core import meanings
from patchgen.core.wheel.check import advice

TEXTS = [(kind, row, text) for kind, rows in meanings.table().items() for row in rows
         for text in row.texts]  # fmt: skip


@pytest.mark.parametrize(("kind", "row", "text"), TEXTS)
def test_no_earlier_row_hides_a_text(kind: str, row: meanings.Meaning, text: str) -> None:
    line = text.removeprefix("^").replace(meanings.ANYTHING, "some x")
    assert meanings.first(meanings.table()[kind], f"{line} of this") is row


def test_a_text_may_have_to_begin_a_line() -> None:
    begins = next(row for _, row, text in TEXTS if text.startswith("^"))
    assert meanings.first([begins], "make: *** [all] Error\nKilled") is begins
    assert meanings.first([begins], "error: TestKilled is not declared") is None


def test_symbols_of_drivers_are_those_of_the_flags() -> None:
    for row in advice.CARDS:
        for text in row.texts:
            assert meanings.first([*advice.CARDS, *meanings.table()["link"]], f"{text}x") is row


def test_an_unknown_error_has_no_meaning() -> None:
    assert meanings.find("build", "error: expected ';'") is None
