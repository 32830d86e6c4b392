"""Report of the measurements: lines for people, plain data for scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from patchgen.extras.accuracy.fixed_point import may_overflow
from patchgen.extras.accuracy.measure import Measured
from patchgen.extras.accuracy.tensors import Tensors
from patchgen.system import tables

_HEADER = (
    *("summed by", "bits/elem", "sent/elem", "max error", "RMS error"),
    *("relative", "SNR dB", "to 0", "inf/NaN"),
)


def lines(tensors: Tensors, measured: Sequence[Measured]) -> Iterator[str]:
    """Lines for people: a table, and notes below it."""
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
    """Plain data for scripts; None where a ratio has no value."""
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
