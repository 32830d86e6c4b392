"""The core of the switch, compiled alone."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from patchgen.extras.lab.switch import PROJECT

FILTER = Path(__file__).parents[1] / "cpp" / "switch_core.cc"
SOURCES = Path(PROJECT.source, "src")
FILES = ("core.cc", "frame.cc", "sum.cc")
STRICT = ("-std=c++17", "-g", "-Wall", "-Wextra", "-Werror")
SANITIZED = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def compiled(directory: Path, flags: Sequence[str]) -> Path:
    """Return a program that takes sessions and frames, and says what becomes of them."""
    sources = [str(FILTER), *(str(SOURCES / name) for name in FILES)]
    program = directory / "core"
    command = ["g++", *STRICT, *flags, "-I", str(SOURCES), *sources, "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def output(program: Path, given: bytes) -> bytes | None:
    """Run the program on `given`; return its output, or None where it failed."""
    ended = subprocess.run([program], input=given, stdout=subprocess.PIPE, check=False, timeout=120)
    return None if ended.returncode else ended.stdout
