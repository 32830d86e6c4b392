"""Sums tensors in several ways, and keeps how far each is from the exact sums."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable

from patchgen.accuracy import blocks
from patchgen.accuracy.deviation import Deviation
from patchgen.accuracy.exact import exact_sum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchgen.accuracy.methods import Method
    from patchgen.accuracy.tensors import Tensors


@dataclass(frozen=True)
class Measured:
    """Result of one method on some tensors."""

    method: Method
    bits: float
    """Bits of an element as it is sent."""
    sent: float
    """Bits that a worker sends for each element in the whole allreduce."""
    deviation: Deviation


def measure(
    tensors: Tensors,
    methods: Sequence[Method],
    step: Callable[[str], None],
    count: Callable[[int, int], None],
) -> list[Measured]:
    """Sums in each way.

    Args:
        tensors: what is summed.
        methods: the ways.
        step: is told each as it begins.
        count: is told how many elements of how many are done.
    """
    measured = []
    for method in methods:
        step(f"summing {tensors.numel} elements of {tensors.workers} workers: {method.name}")
        deviation = Deviation()
        cuts, same = itertools.tee(method.blocks(tensors.numel, blocks.limit(tensors.workers)))
        for values, block in zip(tensors.read(cuts), same):
            deviation.add(exact_sum(values), method.sum(values, block))
            count(block.end, tensors.numel)
        numel = tensors.numel
        measured.append(Measured(method, method.bits(numel), method.sent(numel), deviation))
    return measured
