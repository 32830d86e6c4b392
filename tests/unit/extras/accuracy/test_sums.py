"""Exact sums, the errors against them, the cuts that bound the memory, and the fixed point."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from patchgen.extras.accuracy import methods
from patchgen.extras.accuracy.deviation import Deviation, exact_sum
from patchgen.extras.accuracy.fixed_point import INT32_MAX, FixedPoint, may_overflow
from patchgen.extras.accuracy.tensors import Random

F = np.float32


def test_cuts_keep_units_whole() -> None:
    found = list(methods.cut([range(10), range(10, 10), range(10, 17)], 3, 7))
    assert found == [range(6), range(6, 10), range(10, 16), range(16, 17)]
    assert list(methods.cut([range(5)], 3, 1)) == [range(3), range(3, 5)]


@pytest.mark.parametrize(("numel", "parts"), [(0, 2), (1, 4), (10, 4), (12, 3)])
def test_shares_differ_by_one_element(numel: int, parts: int) -> None:
    found = list(methods.shares(numel, parts))
    assert [element for share in found for element in share] == list(range(numel))
    sizes = [len(share) for share in found]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1


def test_exact_sums_are_exact_where_float64_is_not() -> None:
    bits = np.random.default_rng(1).integers(0, 0x7F800000, (20, 500), dtype=np.uint32)
    values = bits.view(F)
    values[10:] *= -1
    values[:, 0] = [1e30, 1, -1e30, *[0] * 17]
    high, low = exact_sum(values)
    assert (high[0], low[0]) == (1, 0)
    naive = values.astype(np.float64).sum(axis=0)
    worse = 0
    for column in range(values.shape[1]):
        exact = sum(map(Fraction, values[:, column].tolist()))
        size = sum(map(abs, map(Fraction, values[:, column].tolist())))
        error = abs(Fraction(float(high[column])) + Fraction(float(low[column])) - exact)
        assert error <= size / 2**100
        worse += abs(Fraction(float(naive[column])) - exact) > error
    assert worse > 100


def test_exact_sums_of_inf_and_nan_are_not_finite() -> None:
    high, _ = exact_sum(np.array([[np.inf, np.nan, np.inf, 1], [1, 1, -np.inf, 2]], F))
    assert np.isfinite(high).tolist() == [False, False, False, True]


def test_deviation() -> None:
    exact = np.array([4.0, -2.0, 0.5, 1.0, 8.0, np.nan, 0.0])
    result = np.array([4.5, -2.0, 0.0, np.inf, 8.0, 1.0, 0.25], F)
    found = Deviation()
    for part in (slice(0, 3), slice(3, 7)):
        found.add((exact[part], np.zeros_like(exact[part])), result[part])
    assert (found.count, found.undefined, found.lost, found.zeroed) == (5, 1, 1, 1)
    assert found.largest == 0.5
    squares, power = 0.25 + 0.25 + 0.0625, 16 + 4 + 0.25 + 64
    assert found.rms == pytest.approx((squares / 5) ** 0.5)
    assert found.relative == pytest.approx((squares / power) ** 0.5)
    assert found.decibel == pytest.approx(-10 * np.log10(squares / power))


def test_deviation_uses_both_halves_of_the_exact_sum() -> None:
    found = Deviation()
    found.add((np.array([1.0]), np.array([2.0**-60])), np.array([1], F))
    assert found.largest == 2.0**-60


def test_ratios_that_have_no_value() -> None:
    empty = Deviation()
    assert (empty.rms, empty.relative, empty.decibel) == (0, None, None)
    right = Deviation()
    right.add((np.array([2.0]), np.array([0.0])), np.array([2], F))
    assert (right.relative, right.decibel) == (0, None)
    zeros = Deviation()
    zeros.add((np.array([0.0]), np.array([0.0])), np.array([1], F))
    assert (zeros.rms, zeros.relative) == (1, None)


def test_values_do_not_depend_on_the_cuts() -> None:
    tensors = Random(7, 3, 1000)
    (whole,) = tensors.read([range(1000)])
    parts = list(tensors.read(methods.cut([range(1000)], 1, 33)))
    assert np.array_equal(np.concatenate(parts, axis=1), whole)
    assert whole.dtype == F
    assert whole.shape == (3, 1000)
    assert not np.array_equal(whole[0], whole[1])
    (other,) = Random(8, 3, 1000).read([range(1000)])
    assert not np.array_equal(whole, other)


def test_spread() -> None:
    (values,) = Random(0, 2, 20_000).read([range(20_000)])
    assert abs(values.mean()) < 0.1
    assert 0.95 < values.std() < 1.05


# ---- the fixed point


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


def test_bits_of_the_fixed_point() -> None:
    method = FixedPoint(8, packet_numel=64)
    assert method.bits == method.sent == 32.25
