"""Messages of the delegate, by their words in tests/support/messages.py and in the sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import messages

LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
STRINGS = {
    path: LITERAL.findall(re.sub(r'"\s*\n\s*"', "", path.read_text(encoding="utf-8")))
    for path in (Path(__file__).parents[2] / "templates").rglob("*.*")
    if path.suffix in {".cpp", ".hpp", ".j2", ".py"}
}


@pytest.mark.parametrize("name", [name for name in vars(messages) if name.isupper()])
def test_a_message_is_in_one_file(name: str) -> None:
    parts = getattr(messages, name).split("{}")
    found = [path for path, strings in STRINGS.items()
             if all(any(part in one for one in strings) for part in parts)]  # fmt: skip
    assert len(found) == 1, found
