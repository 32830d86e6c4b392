"""Texts of switchml.cfg."""

from __future__ import annotations

import re
from collections.abc import Mapping


def with_values(text: str, values: Mapping[str, object]) -> str:
    """Replace values; each key must be there once, if only in a comment."""
    for key, value in values.items():
        text, count = re.subn(rf"(?m)^(?:# )?{key} =.*$", f"{key} = {value}", text)
        assert count == 1, f"{key} is {count} times in switchml.cfg"
    return text
