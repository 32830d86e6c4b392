"""The core of the switch against a second one, over seeded traces of good and bad workers."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.switch_core import SANITIZED, Change, compiled, mutants, output
from support.switch_model import AGAIN, COMPLETE, FOREIGN, KNOWN, MALFORMED, SUMMED
from support.switch_traces import Traces, traces

SEEDS = 1000  # two traces of each
FEW = 60  # of them show each of the mutants

AS_IT_IS = ("sum.cc", '__builtin_cpu_supports("avx2") != 0', "false")
"""Not broken: as on a machine without wide vectors."""
_MISSING = "(missing == 0 ? workers : missing) - 1)"
_OTHER = "slot.workers[1 - set] &= ~bit;"
MUTANTS: dict[str, Change] = {
    "the counter begins one too high": (
        "core.cc",
        _MISSING,
        "missing == 0 ? workers : missing - 1)",
    ),
    "the other set forgets everybody": ("core.cc", _OTHER, "slot.workers[1 - set] = 0;"),
    "the bit stays in the other set": ("core.cc", _OTHER, ""),
    "the smaller exponent is kept": ("core.cc", "std::max(slot.exp", "std::min(slot.exp"),
    "what is known is added once more": ("core.cc", "} else if (!known) {", "} else {"),
    "what is resent is never answered": ("core.cc", "missing == 0 ? Verdict::kAgain :", ""),
    "a new session finds the old slots": (
        "core.cc",
        "slots_.end(), Slot{}",
        "slots_.begin(), Slot{}",
    ),
    "a lone worker waits": ("core.cc", "workers == 1 || missing == 1", "missing == 1"),
    "both sets have the same values": (
        "core.cc",
        "&values_[(set * kSlots + index)",
        "&values_[index",
    ),
    "a slot too many": ("core.cc", "index >= kSlots", "index > kSlots"),
    "the length is not looked at": ("frame.cc", "frame.size != kHeadBytes + bytes", "false"),
    "the sender's IP is not looked at": ("core.cc", " && worker->ip == sender.ip", ""),
    "sums do not carry": ("sum.cc", "FromNetwork(held) + FromNetwork(given)", "held ^ given"),
    "the worker's IP is not in the checksum": (
        "frame.cc",
        "Folded(ip_sum_ + words)",
        "Folded(ip_sum_)",
    ),
}


@pytest.fixture(scope="module")
def few() -> Traces:
    return traces(range(FEW))


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mutants(tmp_path_factory.mktemp("mutants"), [*MUTANTS.values()])


def test_both_agree_on_every_trace(tmp_path: Path) -> None:
    """Under AddressSanitizer and UBSan: nothing that comes is read behind its end."""
    many = traces(range(SEEDS))
    for verdict in (AGAIN, COMPLETE, FOREIGN, KNOWN, MALFORMED, SUMMED):
        assert many.verdicts[verdict] > SEEDS
    agree = output(compiled(tmp_path, SANITIZED), many.given) == many.expected
    assert agree  # the bytes themselves would fill pages


def test_machines_without_wide_vectors_sum_alike(tmp_path: Path, few: Traces) -> None:
    alike = output(mutants(tmp_path, [AS_IT_IS]), few.given, "0") == few.expected
    assert alike


@pytest.mark.rebuild
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_traces_show_what_is_broken(mutant: str, broken: Path, few: Traces) -> None:
    number = [*MUTANTS].index(mutant)
    shown = output(broken, few.given, str(number)) != few.expected
    assert shown
