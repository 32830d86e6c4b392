"""The arithmetic of the fixed point and of the lanes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support import quantize_model

from patchgen.extras.accuracy.fixed_point import INT32_MAX, FixedPoint, may_overflow
from patchgen.extras.accuracy.lanes import Lanes
from patchgen.extras.accuracy.methods import Block

F = np.float32


def whole(
    method: FixedPoint | Lanes, values: NDArray[np.float32], most: int = 10**9
) -> list[float]:
    parts = [
        method.sum(values[:, block.begin : block.end], block)
        for block in method.blocks(values.shape[1], most)
    ]
    return [float(value) for value in np.concatenate(parts)]


# Fixed point


def test_packets_of_threads() -> None:
    found = list(FixedPoint(2, packet_numel=4, threads=3).blocks(20, 8))
    assert found == [Block(0, 7), Block(7, 14), Block(14, 20)]
    found = list(FixedPoint(2, packet_numel=4, threads=2).blocks(20, 5))
    assert found == [(0, 4), (4, 8), (8, 10), (10, 14), (14, 18), (18, 20)]


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
    assert method.bits(10**6) == method.sent(10**6) == 32.25


# Lanes


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize(("workers", "numel", "most"), [(2, 700, 256), (5, 130, 1000), (1, 64, 64)])
def test_lanes_are_those_of_the_hook(bits: int, workers: int, numel: int, most: int) -> None:
    random = np.random.default_rng(bits)
    values = (
        random.standard_normal((workers, numel)) * 2.0 ** random.integers(-9, 9, numel)
    ).astype(F)
    values[:, 64:128] *= F(1e-40)
    values[0, 3:5] = np.nan, np.inf
    scheme = quantize_model.Model(bits, workers, 64)
    expected = quantize_model.allreduce(scheme, values, 1, 0).values
    np.testing.assert_array_equal(
        np.array(whole(Lanes(workers, bits, 64), values, most), F), expected
    )


def test_lanes_of_zeros_and_of_an_incomplete_bucket() -> None:
    values = np.array([[0, 0, 1, 0.3, 0.1], [0, 0, 0.5, 1, 0.1]], F)
    assert whole(Lanes(2, 2, 2), values) == [0, 0, 1, 1, F(0.2)]
    assert whole(Lanes(2, 2, 4), values) == [0, 0, 1, 1, F(0.2)]


def test_stochastic_lanes_are_right_on_average() -> None:
    values = np.tile(np.array([[1, 0.3, -0.2, 0]], F), (400, 2000))
    found = np.array(whole(Lanes(400, 2, 4, stochastic=True), values)).reshape(-1, 4) / 400
    assert found.mean(axis=0) == pytest.approx([1, 0.3, -0.2, 0], abs=0.002)
    assert (found[:, 3] == 0).all()
    assert found[:, 1].std() > 0


def test_bits_of_lanes() -> None:
    assert [Lanes(2, bits).lanes for bits in (8, 4, 2, 1)] == [3, 6, 10, 16]
    assert [Lanes(8, bits).lanes for bits in (8, 4)] == [2, 4]
    assert Lanes(8, 4).bits(512) == 8 + 32 / 512
    assert Lanes(8, 4).sent(512) == 8 + 32 / 512 * 2 * 7 / 8
    assert Lanes(2, 4, 100).bits(107) == 32 * (17 + 2 + 2) / 107
    assert Lanes(2, 1).name == "SwitchML, 1 bit"
