"""The core of the switch against a second one, over seeded traces of good and bad workers."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.switch_model import AGAIN, COMPLETE, FOREIGN, KNOWN, MALFORMED, SUMMED
from support.switch_traces import Trace, traces

from patchgen.extras.lab.switch import PROJECT

FILTER = Path(__file__).parents[2] / "cpp" / "switch_core.cc"
SOURCES = Path(PROJECT.source, "src")
STRICT = ("-std=c++17", "-g", "-Wall", "-Wextra", "-Werror")
SANITIZED = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
SEEDS = 250  # two traces of each
FEW = 60
NARROW = ("-O1", "-D__builtin_cpu_supports(name)=0")
"""As on a machine without wide vectors."""


def agrees(directory: Path, flags: Sequence[str], trace: Trace) -> bool:
    """Return whether the core, compiled alone with these flags, says of all frames what is right.

    The bytes themselves would fill pages.
    """
    sources = [FILTER, *(SOURCES / name for name in ("core.cc", "frame.cc", "sum.cc"))]
    program = directory / "core"
    subprocess.run(["g++", *STRICT, *flags, "-I", SOURCES, *sources, "-o", program], check=True)
    given = b"".join(trace.given)
    ended = subprocess.run([program], input=given, stdout=subprocess.PIPE, check=True, timeout=120)
    return ended.stdout == b"".join(trace.expected)


def test_both_agree_on_every_trace(tmp_path: Path) -> None:
    """Under AddressSanitizer and UBSan: nothing that comes is read behind its end."""
    many = traces(range(SEEDS))
    for verdict in (AGAIN, COMPLETE, FOREIGN, KNOWN, MALFORMED, SUMMED):
        assert many.verdicts[verdict] > SEEDS
    assert agrees(tmp_path, SANITIZED, many)


def test_machines_without_wide_vectors_sum_alike(tmp_path: Path) -> None:
    assert agrees(tmp_path, NARROW, traces(range(FEW)))
