"""The arithmetic of the fixed point."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from patchgen.extras.accuracy.fixed_point import INT32_MAX, FixedPoint, may_overflow

F = np.float32


def test_packets_of_threads() -> None:
    found = list(FixedPoint(2, packet_numel=4, threads=3).blocks(20, 8))
    assert found == [range(7), range(7, 14), range(14, 20)]
    found = list(FixedPoint(2, packet_numel=4, threads=2).blocks(20, 5))
    ends = [(0, 4), (4, 8), (8, 10), (10, 14), (14, 18), (18, 20)]
    assert found == [range(*one) for one in ends]


def test_the_real_library_may_overflow_from_256_workers_on() -> None:
    """As its workers compute it, with the packet's largest values from all of them."""

    def overflows(workers: int, exponent: int) -> bool:
        factor = F(float(INT32_MAX) / float(F(workers) * F(2.0**exponent)))
        largest = np.nextafter(F(2.0**exponent), F(0))
        sent = np.full(workers, np.floor(float(F(largest * factor)) + 0.5), np.int64)
        return bool(sent.sum() > INT32_MAX)

    found = [workers for workers in range(1, 400) if may_overflow(workers)]
    assert found[:8] == [256, 264, 265, 266, 267, 271, 276, 291]
    for exponent in (-60, 0, 100):
        assert found == [workers for workers in range(1, 400) if overflows(workers, exponent)]
    # One value does it with 256 workers, a step of float32 less does not.
    largest = np.nextafter(F(1), F(0))
    assert 256 * round(float(largest * F(INT32_MAX / 256)) + 0.25) == INT32_MAX + 1
    assert 256 * round(float(np.nextafter(largest, F(0)) * F(INT32_MAX / 256))) < INT32_MAX


def test_least_values_that_the_real_library_makes_nan() -> None:
    """They are those of the page, as its workers compute the factor."""
    page = (Path(__file__).parents[4] / "docs" / "accuracy.md").read_text(encoding="utf-8")
    words = " ".join(page.split())
    with np.errstate(over="ignore"):
        for workers in (2, 4, 8, 16, 32):
            lost = [n for n in range(128) if np.isinf(F(workers) * F(2.0 ** min(n + 1, 127)))]
            assert f"2^{min([*lost, 126])} with {workers}" in words


def test_bits_of_the_fixed_point() -> None:
    method = FixedPoint(8, packet_numel=64)
    assert method.bits == method.sent == 32.25
