"""Meanings of errors of programs, and what to do: one table, meanings.json.

A row has texts as programs print them, in which `…` stands for anything within the line. A text
that begins with `^` has to be at the start of a line.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "meanings.json")
ANYTHING = "…"


class Meaning(NamedTuple):
    """One row of the table."""

    texts: tuple[str, ...]
    meaning: str
    """Usual cause; empty where the text already has it."""
    advice: str

    def __str__(self) -> str:
        return "; ".join(filter(None, (self.meaning, self.advice)))


@functools.cache
def table() -> Mapping[str, tuple[Meaning, ...]]:
    """Return the rows by kind.

    The kinds are build for a line of its log, link for an undefined symbol, import for an exception
    and library for one that is not found.
    """
    with open(_TABLE, encoding="utf-8") as file:
        kinds: dict[str, list[dict[str, str]]] = json.load(file)
    return {
        kind: tuple(Meaning(tuple(row["texts"]), row["meaning"], row["advice"]) for row in rows)
        for kind, rows in kinds.items()
    }


def find(kind: str, error: str) -> str | None:
    """Return the usual meaning of an error and what to do; None for an unknown one."""
    row = first(table()[kind], error)
    return None if row is None else str(row)


def first(rows: Iterable[Meaning], error: str) -> Meaning | None:
    """Return the first row with a text that is in an error."""
    return next(
        (row for row in rows if any(_pattern(text).search(error) for text in row.texts)), None
    )


@functools.cache
def _pattern(text: str) -> re.Pattern[str]:
    start, rest = ("^", text[1:]) if text.startswith("^") else ("", text)
    return re.compile(start + ".*".join(map(re.escape, rest.split(ANYTHING))), re.MULTILINE)
