"""Outcomes of the demo, of made figures."""

from __future__ import annotations

from typing import Any

import numpy as np

from patchgen.core.torch import Torch
from patchgen.extras.train.demo.comparison import Comparison
from patchgen.extras.train.demo.training import Training
from patchgen.extras.train.results import RankReport, Result
from patchgen.extras.train.setup import Setup

STEPS, EPOCHS = 40, 4
CALLS, BYTES = 40, 1_000_000
TORCH = Torch(
    python="/usr/bin/python3",
    version="2.9.0",
    commit="c" * 40,
    cuda=None,
    cxx11_abi=True,
    gloo=True,
    root="/site/torch",
    python_include="/include",
    purelib="/site",
    tag="cp311",
    python_version="3.11.2",
)
NO_FALLBACKS = {"group": 0, "op": 0, "dtype": 0, "tensors": 0, "numel": 0}


def report(calls: int = CALLS, **fallbacks: int) -> dict[str, Any]:
    """Return counters of SwitchML on a rank."""
    return {"calls": calls, "bytes": BYTES, "fallbacks": {**NO_FALLBACKS, **fallbacks}}


def training(
    weights: list[list[float]], *reports: dict[str, Any] | None, off: float = 0.0, **setup: Any
) -> Training:
    """Return a training whose loss falls; `off` is added to the loss of each other step."""
    losses = 2.0 * np.exp(-np.arange(STEPS) / 10)
    losses[::2] += off
    ranks = [
        RankReport(rank, len(reports), "gloo", "goes to SwitchML (a=1)", one, final=True)
        for rank, one in enumerate(reports)
    ]
    made = Setup(TORCH, "plugin", "the plugin, built by this command", **setup)
    return Training(
        result=Result(made, 0, {}, ranks),
        seconds=1.25,
        log="/out/switchml/output.txt",
        losses=losses,
        accuracies=[0.25, 0.5, 0.75, 0.9],
        weights=[np.array(each, dtype=np.float32) for each in weights],
        largest_gradient=0.5,
        reach=1.0,
    )


def outcome(*, by: float = 1e-6, simulated: bool = True, dtype: int = EPOCHS) -> Comparison:
    """Return two trainings whose weights differ."""
    return Comparison(
        training([[1.0, -2.0, 0.0]] * 2, None, None),
        training(
            [[1.0, -2.0, by]] * 2,
            report(dtype=dtype),
            report(dtype=dtype),
            off=1e-7,
            report={"simulator": simulated, "flags": ""},
        ),
    )
