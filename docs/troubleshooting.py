"""Print docs/troubleshooting.md from the tables of messages; `make docs` writes it.

The tables are patchgen/core/meanings.json, those of `run`, of the doctor and of the exit codes, and
docs/troubleshooting.json. That has causes and advice for messages of the ranks: of `messages` by
their names in tests/support/messages.py, of `reasons` by those in `REASONS` of
patchgen/extras/train/result_text.py, and of `texts` that stand in the sources alone.
"""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from jinja2 import Template

from docs.reference import table
from patchgen.core import meanings
from patchgen.core.meanings import ANYTHING, Meaning
from patchgen.core.verify import exits
from patchgen.core.wheel.check import advice
from patchgen.errors import EXIT_CODES
from patchgen.extras.doctor.payload.switchml_doctor.checks import CHECKS
from patchgen.extras.train.result_text import REASONS

_DOCS = Path(__file__).parent
_LOWER_CASE = re.compile(r"(?:gRPC|gcc|mkl|nvcc)\b")  # names at the start of a sentence
ROWS: dict[str, list[dict[str, Any]]] = json.loads(
    (_DOCS / "troubleshooting.json").read_text(encoding="utf-8")
)
MESSAGES: dict[str, str] = {
    name: text
    for name, text in runpy.run_path(str(_DOCS.parent / "tests/support/messages.py")).items()
    if name.isupper()
}


def varied(text: str) -> str:
    """Return a message with … for each field, and before a text that other words precede."""
    begun = ANYTHING if text.startswith((" ", ",", ";")) else ""
    return begun + re.sub(r"\{\w*\}", ANYTHING, text).rstrip()


def rows(kind: str) -> list[Meaning]:
    """Return the rows of docs/troubleshooting.json of one kind."""
    return [
        Meaning(
            (
                *map(varied, row.get("texts", ())),
                *(varied(MESSAGES[name]) for name in row.get("messages", ())),
                *(varied(REASONS[name]) for name in row.get("reasons", ())),
            ),
            row["cause"],
            row["advice"],
        )
        for row in ROWS[kind]
    ]


def sentence(text: str) -> str:
    """Return a part of a message as a sentence, with commands as code; empty for none."""
    named = re.sub(r"(?:: )?(switchml-patch [a-z]+(?: [a-z]+)?)", r" `\1`", text).strip()
    if not named or _LOWER_CASE.match(named):
        return named and f"{named}."
    return f"{named[0].upper()}{named[1:]}."


def of_programs(known: Iterable[Meaning]) -> list[Meaning]:
    """Return rows of patchgen/core/meanings.json with sentences."""
    return [
        Meaning(
            tuple(text.removeprefix("^").strip() for text in row.texts),
            sentence(row.meaning),
            sentence(row.advice),
        )
        for row in known
    ]


def columns(found: Iterable[Meaning], header: str = "message | cause") -> str:
    cells = [
        (
            "<br>".join(f"`` {text} ``" if "`" in text else f"`{text}`" for text in row.texts),
            row.meaning,
            row.advice,
        )
        for row in found
    ]
    return "\n".join(table(f"{header} | what to do", cells))


def checks() -> list[Meaning]:
    """Return the checks of the doctor: what each looks at, and its advice."""
    return [
        Meaning(
            (check.name,),
            sentence(str(check.look.__doc__).removeprefix("Check that ").rstrip(".")),
            sentence(check.advice),
        )
        for check in CHECKS
    ]


def text() -> str:
    known = meanings.table()
    crash = Meaning(
        (varied(exits.CAUSE),),
        "Known of PyTorch 1.7.1 with Python 3.9.",
        "[Python 3.7 or 3.8](build.md#before-you-start), or end the script with `os._exit(0)`.",
    )
    pages = {kind.replace(" ", "_"): columns(rows(kind)) for kind in ROWS}
    pages |= {kind: columns(of_programs(found)) for kind, found in known.items()}
    pages["link"] = columns(of_programs([*advice.CARDS, *known["link"]]))
    pages["torch"] = columns([crash, *rows("torch")], "text or symptom | cause")
    pages["doctor"] = columns(checks(), "check | it fails unless")
    codes = [(str(code), meaning) for code, meaning in EXIT_CODES.items()]
    pages["exit_codes"] = "\n".join(table("code | meaning", codes))
    template = (_DOCS / "troubleshooting.md.j2").read_text(encoding="utf-8")
    page: str = Template(template, keep_trailing_newline=True).render(pages)
    return page


if __name__ == "__main__":
    click.echo(text(), nl=False)
