from __future__ import annotations

from patchgen.system import tables


def test_words_begin_and_figures_end_alike() -> None:
    found = list(tables.lines(("name", "calls", "of"), [("a", "1", "x"), ("longer", "1000", "yy")]))
    assert found == [
        "name    calls  of",
        "-----------------",
        "a           1   x",
        "longer   1000  yy",
    ]


def test_columns_of_words() -> None:
    found = list(tables.lines(("a", "why"), [("1", "x"), ("2", "")], words=2))
    assert found == ["a  why", "------", "1  x", "2"]


def test_a_table_without_rows_is_its_header() -> None:
    assert list(tables.lines(("a", "b"), [])) == ["a  b", "----"]


def test_one_thing_and_several() -> None:
    assert tables.counted(1, "bit") == "1 bit"
    assert tables.counted(0, "session") == "0 sessions"
    assert tables.counted(1000, "sum") == "1,000 sums"
