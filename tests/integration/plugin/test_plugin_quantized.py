"""Gradients averaged in fewer bits, by real ranks of DistributedDataParallel."""

from __future__ import annotations

from typing import Any

import pytest
from support.launcher import Launcher
from support.torch import results

TRIALS: list[dict[str, Any]] = [
    {"bits": 4},
    {"bits": 1, "feedback": True, "bucket_size": 100},
    {"bits": 2, "feedback": True, "skip_incomplete": True},
    {"bits": 8, "rules": [["norm", 32], ["wide", 3]], "gradient_as_bucket_view": True},
    {"bits": 3, "dtype": "bfloat16", "feedback": True},
    {"bits": 5, "dtype": "float16", "layer_min_size": 0, "cap": 25},
    {"bits": 4, "accumulate": True, "bucket_size": 10_000},
    {"bits": 32},
]


@pytest.mark.parametrize(("backend", "world"), [("gloo", 3), ("switchml", 2)])
def test_same_as_the_model(launch: Launcher, backend: str, world: int) -> None:
    trials = TRIALS if backend == "gloo" else TRIALS[:4]
    given = {"trials": trials, "backend": backend}
    for rank in results(launch("quantized_cases:same_as_model", world, arguments=given)):
        assert (rank["report"]["calls"] > 0) == (backend == "switchml")


def test_training(launch: Launcher) -> None:
    for rank in results(launch("quantized_cases:trained", 2)):
        assert rank["apart"]["8"] < 0.01
        assert rank["apart"]["2"] < 0.3
        assert rank["sent"]["8"] < 0.36 * rank["sent"]["32"]
        assert rank["sent"]["1"] < 0.1 * rank["sent"]["32"]


@pytest.mark.parametrize("backend", ["gloo", "switchml"])
def test_a_bucket_holds_no_group(launch: Launcher, backend: str) -> None:
    """A thread of Gloo's that freed the last reference to its own group would end the process."""
    results(launch("quantized_cases:freed_late", 2, arguments={"backend": backend}))


def test_settings_that_differ(launch: Launcher) -> None:
    for rank in results(launch("quantized_cases:differ", 2)):
        at_first, later = rank["errors"]
        assert "bits is 8 on rank 0 and 4 on rank 1" in at_first
        assert "settings of QuantizedState differ between ranks" in later


def test_names_are_needed(launch: Launcher) -> None:
    for rank in results(launch("quantized_cases:unnamed", 2)):
        needed, *wrong = rank["errors"]
        assert "QuantizedState(model=...)" in needed
        assert ["is not a layer of the model" in one for one in wrong] == [True, True]


@pytest.mark.parametrize("case", ["resumed", "stochastic", "whole_types"])
def test_case(launch: Launcher, case: str) -> None:
    """The assertions are in the case."""
    results(launch(f"quantized_cases:{case}", 2))


def test_what_comes_from_cgx(launch: Launcher) -> None:
    for rank in results(launch("quantized_cases:from_cgx", 2)):
        assert rank["errors"] == [
            "compression_params: no 'bit' is known",
            "bits=0: give an integer from 1 to 8, or 32 for no quantization",
            "CGX_COMPRESSION_BUCKET_SIZE='many': give an integer",
            "SKIP_INCOMPLETE_BUCKETS=2: give 0 or 1",
        ]
        (warned,) = rank["warned"]
        assert warned.startswith("CGX_INTRA_BROADCAST has no effect: torch_switchml.hier")


def test_a_variable_of_cgx_is_the_hooks_alone(launch: Launcher) -> None:
    env = {"CGX_COMPRESSION_QUANTIZATION_BITS": "2"}
    for rank in results(launch("quantized_cases:cgx_by_variable", 2, env=env)):
        assert rank["warned"] == []
        assert max(rank["apart"]) < 1e-6


def test_our_variable_is_the_groups_too(launch: Launcher) -> None:
    env = {"SWITCHML_QUANTIZATION_BITS": "2"}
    for rank in results(launch("quantized_cases:cgx_by_variable", 2, env=env)):
        (warned,) = rank["warned"]
        assert warned.startswith("SWITCHML_QUANTIZATION_BITS is also the group's: SwitchML rounds")
        assert min(rank["apart"]) > 0.1, "2 bits of a sum whose scale is that of a bucket"


def test_the_example(launch: Launcher) -> None:
    measured = results(launch("quantized_cases:example", 2))[0]["measured"]
    assert len(measured) == 2
    for ways in measured.values():
        whole, few = ways
        assert whole["losses"] == few["losses"], "the first loss is that of the same weights"
        assert few["bytes"] < 0.25 * whole["bytes"]


def test_a_rank_that_is_gone(launch: Launcher) -> None:
    ranks = results(launch("quantized_cases:lost", 2, timeout=10))
    assert ranks[0]["error"]
