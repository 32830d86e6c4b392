"""Sums tensors in several ways, and keeps how far each is from the exact sums."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from patchgen.extras.accuracy.deviation import Deviation, exact_sum
from patchgen.extras.accuracy.methods import Method, limit
from patchgen.extras.accuracy.tensors import Tensors
from patchgen.system.progress import log_count

_LOGGER = logging.getLogger(__name__)
_LONG = 2**28  # values of all workers: beyond, it is shown how many are done


@dataclass(frozen=True)
class Measured:
    """Result of one method on some tensors."""

    method: Method
    deviation: Deviation


def measure(tensors: Tensors, methods: Sequence[Method]) -> list[Measured]:
    """Sums in each way."""
    long = tensors.workers * tensors.numel > _LONG
    measured = []
    for method in methods:
        _LOGGER.info(
            "summing %d elements of %d workers: %s", tensors.numel, tensors.workers, method.name
        )
        deviation = Deviation()
        cuts, same = itertools.tee(method.blocks(tensors.numel, limit(tensors.workers)))
        for values, block in zip(tensors.read(cuts), same):
            deviation.add(exact_sum(values), method.sum(values))
            if long:
                log_count(_LOGGER, block.end, tensors.numel)
        measured.append(Measured(method, deviation))
    return measured
