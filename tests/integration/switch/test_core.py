"""The core of the switch against a second one, over seeded traces of good and bad workers."""

from __future__ import annotations

from pathlib import Path

from support.switch_core import SANITIZED, compiled, output
from support.switch_model import AGAIN, COMPLETE, FOREIGN, KNOWN, MALFORMED, SUMMED
from support.switch_traces import traces

SEEDS = 1000  # two traces of each
FEW = 60
NARROW = ("-O1", "-D__builtin_cpu_supports(name)=0")
"""As on a machine without wide vectors."""


def test_both_agree_on_every_trace(tmp_path: Path) -> None:
    """Under AddressSanitizer and UBSan: nothing that comes is read behind its end."""
    many = traces(range(SEEDS))
    for verdict in (AGAIN, COMPLETE, FOREIGN, KNOWN, MALFORMED, SUMMED):
        assert many.verdicts[verdict] > SEEDS
    agree = output(compiled(tmp_path, SANITIZED), many.given) == many.expected
    assert agree  # the bytes themselves would fill pages


def test_machines_without_wide_vectors_sum_alike(tmp_path: Path) -> None:
    few = traces(range(FEW))
    alike = output(compiled(tmp_path, NARROW), few.given) == few.expected
    assert alike
