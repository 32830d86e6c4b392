"""From which size on SwitchML is faster: ranks with other times find the same number."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.delegate import CPP, STRICT, render

FLAGS = {
    "address": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    "thread": ("-fsanitize=thread",),
}
MUTANTS = {
    "each rank for itself": (
        "return collectives.largest(static_cast<std::uint64_t>(time.count()));",
        "return static_cast<std::uint64_t>(time.count());",
    ),
    "times of this rank alone": (
        "largest(medianOf(std::move(gloo)))",
        "std::uint64_t(medianOf(std::move(gloo)).count())",
    ),
    "an end of its own": ("Nanoseconds(largest(all))", "(largest(all), all)"),
    "any size that is faster": ("        break;\n", "        continue;\n"),
    "the longest time": ("return *middle;", "return *std::max_element(times.begin(), middle);"),
}
SAID = """\
8 sizes, from 65536
8 sizes, from 65536
8 sizes, from none
8 sizes, from 256
3 sizes, from 256
1 sizes, from 256
"""


def run(directory: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    program = directory / "crossover"
    command = ["g++", *STRICT, *flags, f"-I{directory}", str(CPP / "crossover.cpp"), "-pthread"]
    subprocess.run([*command, "-o", str(program)], check=True)
    return subprocess.run([program], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("sanitizer", FLAGS)
def test_all_ranks_find_the_same_number(sanitizer: str, tmp_path: Path) -> None:
    render(tmp_path)
    done = run(tmp_path, "-g1", *FLAGS[sanitizer])
    assert (done.stdout, done.stderr) == (SAID, "")


@pytest.mark.rebuild
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants(name: str, tmp_path: Path) -> None:
    render(tmp_path)
    before, after = MUTANTS[name]
    header = tmp_path / "SwitchMLCrossover.hpp"
    text = header.read_text()
    assert text.count(before) == 1
    header.write_text(text.replace(before, after))
    done = run(tmp_path, "-Wno-error")
    assert (done.returncode, done.stdout) != (0, SAID)
