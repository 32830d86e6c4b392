#!/usr/bin/env python3
"""Lists docstrings and names that a reader has to translate; exit code 1 where there is one.

    ci/plain.py FILE|FOLDER...

A docstring begins with a thing ("Path of the lock file.") or with a verb ("Writes the lock file."),
never with a preposition, a question word or a pronoun. A function is named by a verb with its
object, a class by a noun, and neither by a participle alone.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST = re.compile(
    r"(?:All|And|Are|As|At|But|By|Each|Else|For|From|Has|Here|How|In|Is|It|Its|Likewise|None|Not|"
    r"Of|On|One|Only|Some|That|There|Those|To|Up|What|Where|Whether|Why|With|Without)\b"
)
NAME = re.compile(
    r"_*(?:around|asked|ended|former|found|given|gone|hidden|kept|known|made|mine|of|others|said|"
    r"seen|shown|taken|told|tried|wanted)_*",
    re.IGNORECASE,
)
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def hits(text: str) -> Iterator[tuple[int, str]]:
    """Yields the line and the words of each name and docstring of a module to translate."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _NAMED) and NAME.fullmatch(node.name):
            yield node.lineno, f"def {node.name}"
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            value = getattr(statement, "value", None)
            if not isinstance(statement, ast.Expr) or not isinstance(value, ast.Constant):
                continue
            if isinstance(value.value, str) and FIRST.match(value.value.strip()):
                yield statement.lineno, value.value.strip().splitlines()[0]


def main() -> int:
    """Prints the hits of the files and folders on the command line."""
    found = [
        f"{path}:{line}: {words}"
        for place in map(Path, sys.argv[1:])
        for path in ([place] if place.is_file() else sorted(place.rglob("*.py")))
        for line, words in sorted(hits(path.read_text(encoding="utf-8")))
    ]
    if found:
        print(*found, sep="\n", file=sys.stderr)
        print("ci/plain: begin with the thing or with a verb (see ci/plain.py)", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
