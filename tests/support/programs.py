"""Programs of tests/payload/programs, and those that tests write to where one is looked for."""

from __future__ import annotations

from pathlib import Path

_PROGRAMS = Path(__file__).parents[1] / "payload" / "programs"


def path_of(name: str) -> Path:
    return _PROGRAMS / f"{name}.py"


def read(name: str) -> str:
    return path_of(name).read_text(encoding="utf-8")


def script(path: Path, text: str) -> Path:
    """Write a program whose first line names its interpreter."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path
