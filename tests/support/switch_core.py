"""The core of the switch, compiled alone: as it is, and broken in several ways at once."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from patchgen.extras.lab.switch import SOURCE

FILTER = Path(__file__).parents[1] / "cpp" / "switch_core.cc"
SOURCES = Path(SOURCE, "src")
FILES = ("core.cc", "frame.cc", "sum.cc")
STRICT = ("-std=c++17", "-g", "-Wall", "-Wextra", "-Werror")
SANITIZED = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

Change = tuple[str, str, str]
"""A file, a text that is there once, and what takes its place."""


def compiled(directory: Path, flags: Sequence[str]) -> Path:
    """A program that takes sessions and frames, and says what becomes of them."""
    sources = [str(FILTER), *(str(SOURCES / name) for name in FILES)]
    program = directory / "core"
    command = ["g++", *STRICT, *flags, "-I", str(SOURCES), *sources, "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def mutants(directory: Path, changes: Sequence[Change]) -> Path:
    """A program that is all of the broken ones: its argument is the number of one.

    They are one unit, each in a namespace of its own, as headers take most of a compiler's time.
    """
    names = ["bytes.h", "sum.h", "sum.cc", "frame.h", "frame.cc", "core.h", "core.cc"]
    texts = {name: (SOURCES / name).read_text(encoding="ascii") for name in names}
    texts[FILTER.name] = "namespace softswitch {\n" + FILTER.read_text(encoding="ascii") + "}\n"
    includes = sorted(
        {line for text in texts.values() for line in re.findall("#include <.*", text)}
    )
    unit = includes
    for number, (name, old, new) in enumerate(changes):
        assert texts[name].count(old) == 1, (name, old)
        text = "\n".join({**texts, name: texts[name].replace(old, new)}.values())
        text = re.sub(r"#include .*|#(ifndef|define|endif) .*_H_", "", text)
        unit.append(text.replace("softswitch", f"mutant{number}"))
    cases = [f"case {number}: return mutant{number}::main();" for number in range(len(changes))]
    unit.append(
        "int main(int, char** words) { switch (std::atoi(words[1])) {\n" + "\n".join(cases) + "}}"
    )
    source, program = directory / "mutants.cc", directory / "mutants"
    source.write_text("#include <cstdlib>\n" + "\n".join(unit), encoding="ascii")
    subprocess.run(["g++", "-std=c++17", "-O0", "-w", str(source), "-o", str(program)], check=True)
    return program


def output(program: Path, given: bytes, *words: str) -> bytes | None:
    """Runs the program on `given`; returns its output, or None where it failed."""
    ended = subprocess.run(
        [program, *words], input=given, stdout=subprocess.PIPE, check=False, timeout=120
    )
    return None if ended.returncode else ended.stdout
