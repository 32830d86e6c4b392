"""Report of the demo: a table and an explanation, or data for JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from patchgen.extras.train.demo.comparison import Comparison
from patchgen.extras.train.demo.training import Training
from patchgen.system import tables

_COLUMNS = 80
_NAMES = {"stock": "stock Gloo", "switchml": "SwitchML"}
_WHY = {
    "dtype": "of other types",
    "group": "the group does not delegate",
    "numel": "too few elements",
    "op": "neither sum nor average",
    "tensors": "several tensors",
}


def lines(outcome: Comparison, picture: str, again: str) -> Iterator[str]:
    """Yield the lines of the report; `again` is a command that runs the script again."""
    yield from tables.lines(["", *_NAMES.values()], list(_rows(outcome)))
    for paragraph in _paragraphs(outcome):
        yield ""
        yield from textwrap.wrap(paragraph, _COLUMNS)
    yield ""
    yield f"Both loss curves: {picture}"
    yield "The training once more; put a script of yours in place of the last word:"
    yield f"  {again}"


def _rows(outcome: Comparison) -> Iterator[list[str]]:
    both = (outcome.stock, outcome.switchml)
    yield ["loss, mean of the first epoch", *(f"{_epoch(one, 0):.4f}" for one in both)]
    yield ["loss, mean of the last epoch", *(f"{_epoch(one, -1):.4f}" for one in both)]
    yield ["unseen digits that are read right", *(f"{one.accuracies[-1]:.1%}" for one in both)]
    yield ["seconds", *(f"{one.seconds:.1f}" for one in both)]
    yield ["allreduces delegated to SwitchML", "0", f"{outcome.switchml.calls:,}"]
    yield ["bytes summed by SwitchML, of each rank", "0", f"{outcome.switchml.bytes:,}"]
    for reason, count in outcome.switchml.fallbacks.items():
        yield [f"allreduces left to Gloo: {_WHY.get(reason, reason)}", "", f"{count:,}"]
    yield ["largest deviation of a weight", "", f"{outcome.deviation:.1e}"]
    yield ["deviation that rounding explains", "", f"{outcome.allowed:.1e}"]


def _epoch(one: Training, number: int) -> float:
    steps = len(one.losses) // len(one.accuracies)
    first = (number % len(one.accuracies)) * steps
    return float(one.losses[first : first + steps].mean())


def _paragraphs(outcome: Comparison) -> Iterator[str]:
    setup = outcome.switchml.result.setup
    weights = len(outcome.stock.weights[0])
    yield (
        f"What happened: {outcome.ranks} processes, called ranks, taught a small network to read "
        "digits, each from its own share of the images. After every step they added up their "
        f"gradients, {weights:,} numbers, so that all went on with the same network. Such a sum is "
        "called an allreduce; with many machines it is what a training waits for."
    )
    yield (
        "Gloo, a part of PyTorch, sums by sending gradients from rank to rank. SwitchML has every "
        "rank send them once, to the network switch, which adds them up as they pass and sends the "
        "sum back. The script and the PyTorch were the same both times; the sums of one training "
        f"were handed to SwitchML by {setup.title}."
    )
    simulated = (
        " The switch was a process on this machine: it shows that the sums are right, and nothing "
        "of the speed."
    )
    yield (
        "A switch adds integers, so it rounds in another way than Gloo. The weights of the two "
        f"trainings differ by {outcome.deviation:.1e} at most, in their last digits."
        + (simulated if setup.simulated else "")
    )


def data(outcome: Comparison, picture: str, script: str) -> dict[str, Any]:
    """Return the outcome as data for JSON."""
    setup = outcome.switchml.result.setup
    return {
        "torch": setup.torch.version,
        "variant": setup.variant,
        "simulated": setup.simulated,
        "ranks": outcome.ranks,
        "steps": outcome.steps,
        "delegated": {"calls": outcome.switchml.calls, "bytes": outcome.switchml.bytes},
        "fallbacks": dict(outcome.switchml.fallbacks),
        "deviation": outcome.deviation,
        "allowed": outcome.allowed,
        **{name: _training(getattr(outcome, name)) for name in _NAMES},
        "picture": picture,
        "script": script,
    }


def _training(one: Training) -> dict[str, Any]:
    return {
        "losses": [float(loss) for loss in one.losses],
        "accuracies": list(one.accuracies),
        "seconds": one.seconds,
    }
