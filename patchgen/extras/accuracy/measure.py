"""Deviation of each method from the exact sums, as lines for people and data for JSON."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Union

from patchgen.extras.accuracy.deviation import Deviation, exact_sum
from patchgen.extras.accuracy.fixed_point import FixedPoint, may_overflow
from patchgen.extras.accuracy.methods import Float32
from patchgen.extras.accuracy.tensors import Tensors
from patchgen.system import tables
from patchgen.system.progress import log_count

_LOGGER = logging.getLogger(__name__)
Method = Union[FixedPoint, Float32]
_VALUES = 2**22  # values of all workers in a block
_LEAST = 2**12  # elements of a block, however many the workers are
_LONG = 2**28  # values of all workers from which progress is shown
_HEADER = (
    *("summed by", "bits/elem", "sent/elem", "max error", "RMS error"),
    *("relative", "SNR dB", "to 0", "inf/NaN"),
)


@dataclass(frozen=True)
class Measured:
    """Deviation of one method."""

    method: Method
    deviation: Deviation


def measure(tensors: Tensors, methods: Sequence[Method]) -> list[Measured]:
    """Sum the tensors with each method, and compare with the exact sums."""
    long = tensors.workers * tensors.numel > _LONG
    measured = []
    for method in methods:
        _LOGGER.info(
            "summing %d elements of %d workers: %s", tensors.numel, tensors.workers, method.name
        )
        deviation = Deviation()
        most, done = max(_VALUES // tensors.workers, _LEAST), 0
        for values in tensors.read(method.blocks(tensors.numel, most)):
            deviation.add(exact_sum(values), method.sum(values))
            done += values.shape[1]
            if long:
                log_count(_LOGGER, done, tensors.numel)
        measured.append(Measured(method, deviation))
    return measured


def lines(tensors: Tensors, measured: Sequence[Measured]) -> Iterator[str]:
    """Yield a table for people, and notes below it."""
    yield f"{tensors.numel} elements on {tensors.workers} workers: {tensors.origin}"
    yield ""
    yield from tables.lines(_HEADER, [_row(one) for one in measured])
    undefined = measured[0].deviation.undefined
    if undefined:
        yield f"{undefined} elements are inf or NaN on some worker; they count nowhere above"
    if may_overflow(tensors.workers):
        yield (
            f"the real client library may overflow with {tensors.workers} workers, so a group of "
            "that size stays with Gloo"
        )


def _row(one: Measured) -> list[str]:
    found = one.deviation
    return [
        one.method.name,
        f"{one.method.bits:.2f}",
        f"{one.method.sent:.2f}",
        _figure(found.largest),
        _figure(found.rms),
        "-" if found.relative is None else _figure(found.relative),
        "-" if found.decibel is None else f"{found.decibel:.1f}",
        str(found.zeroed),
        str(found.lost),
    ]


def _figure(value: float) -> str:
    return f"{value:.2e}" if value else "0"


def data(tensors: Tensors, measured: Sequence[Measured]) -> dict[str, Any]:
    """Return the result as data for JSON; a ratio without a value is None."""
    return {
        "values": tensors.origin,
        "workers": tensors.workers,
        "numel": tensors.numel,
        "undefined": measured[0].deviation.undefined,
        "may_overflow": may_overflow(tensors.workers),
        "methods": [
            {
                "name": one.method.name,
                "settings": dict(vars(one.method)),
                "bits_per_element": one.method.bits,
                "sent_per_element": one.method.sent,
                "max_error": one.deviation.largest,
                "rms_error": one.deviation.rms,
                "relative_error": one.deviation.relative,
                "snr_db": one.deviation.decibel,
                "to_zero": one.deviation.zeroed,
                "not_finite": one.deviation.lost,
            }
            for one in measured
        ],
    }
