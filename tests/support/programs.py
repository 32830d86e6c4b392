"""Programs of tests/payload/programs, which tests start or write to where one is looked for."""

from __future__ import annotations

from pathlib import Path

_PROGRAMS = Path(__file__).parents[1] / "payload" / "programs"


def path_of(name: str) -> Path:
    return _PROGRAMS / f"{name}.py"


def read(name: str) -> str:
    return path_of(name).read_text(encoding="utf-8")
