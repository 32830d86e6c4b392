"""Meanings of errors of programs, and what to do: one table of patterns, meanings.json."""

from __future__ import annotations

import functools
import json
import os
import re

_TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "meanings.json")


@functools.cache
def _read() -> dict[str, list[dict[str, str]]]:
    with open(_TABLE, encoding="utf-8") as file:
        table: dict[str, list[dict[str, str]]] = json.load(file)
    return table


def find(kind: str, error: str) -> str | None:
    """Return the usual meaning of an error and what to do; None for an unknown one.

    Args:
        kind: part of the table: build for a line of its log, import for an exception, library for
            the name of a missing one, link for an undefined symbol.
        error: text to search for the patterns; the first that matches counts.
    """
    rows = (row for row in _read()[kind] if re.search(row["pattern"], error))
    return next((row["meaning"] for row in rows), None)
