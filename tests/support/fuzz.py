"""Programs that give a server seeded inputs, with the server's own C++ in them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from support.waiting import ENOUGH

if TYPE_CHECKING:
    from collections.abc import Sequence

INPUTS = int(os.environ.get("SWITCHML_FUZZ_INPUTS", "1500"))
"""Inputs for each listener."""
FIRST = int(os.environ.get("SWITCHML_FUZZ_FIRST", "0"))
"""Number of the first input, from which it is made."""

_CPP = Path(__file__).parents[1] / "cpp"
_STRICT = ("-std=c++17", "-O0", "-g1", "-Wall", "-Wextra", "-Werror")
_SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def compiled(
    directory: Path, driver: str, includes: Sequence[Path], *libraries: str | Path
) -> Path:
    """A program of tests/cpp with libraries of a server that have the same sanitizers."""
    program = directory / "fuzz"
    paths = [f"-I{path}" for path in (*includes, _CPP)]
    linked = [_CPP / driver, *libraries, "-pthread", "-o", program]
    subprocess.run(["g++", *_STRICT, *_SANITIZED, *paths, *linked], check=True)
    return program


def counted(program: Path, *words: str | Path) -> dict[str, int]:
    """Figures of a run over all inputs, which must end well."""
    ended = subprocess.run(
        [program, *words, str(FIRST), str(INPUTS)],
        capture_output=True, text=True, check=False, timeout=ENOUGH + INPUTS / 10,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-4000:]
    return {name: int(number) for name, number in re.findall(r"(\w[a-z ]*) (\d+)", ended.stdout)}
