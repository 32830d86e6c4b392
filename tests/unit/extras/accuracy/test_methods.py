"""The arithmetic of the fixed point and of the buckets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support import quantize_model

from patchgen.extras.accuracy.buckets import Buckets
from patchgen.extras.accuracy.fixed_point import INT32_MAX, FixedPoint, may_overflow
from patchgen.extras.accuracy.lanes import Lanes
from patchgen.extras.accuracy.methods import Block

F = np.float32


def whole(
    method: Buckets | FixedPoint | Lanes, values: NDArray[np.float32], most: int = 10**9
) -> list[float]:
    parts = [
        method.sum(values[:, block.begin : block.end], block)
        for block in method.blocks(values.shape[1], most)
    ]
    return [float(value) for value in np.concatenate(parts)]


# Fixed point


def test_packets_of_threads() -> None:
    found = list(FixedPoint(2, packet_numel=4, threads=3).blocks(20, 8))
    assert found == [Block(0, 7, 0), Block(7, 14, 1), Block(14, 20, 2)]
    found = list(FixedPoint(2, packet_numel=4, threads=2).blocks(20, 5))
    assert found == [
        Block(b, e, b // 10) for b, e in [(0, 4), (4, 8), (8, 10), (10, 14), (14, 18), (18, 20)]
    ]


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


# Buckets


def one(values: list[float], **settings: int) -> list[float]:
    """What is received of one worker's values, by all-to-all."""
    method = Buckets(1, requantize=False, **settings)  # type: ignore[arg-type]
    return whole(method, np.array([values], F))


def test_levels_of_a_bucket() -> None:
    assert one([0, 1, 2, 3], levels_bits=2) == [0, 1, 2, 3]
    assert one([0, 1.4, 1.5, 3], levels_bits=2) == [0, 1, 2, 3]
    assert one([-1, 0.4, 0.6, 3], levels_bits=1) == [-1, -1, -1, 3]
    assert one([5, 5, 5], levels_bits=4) == [5, 5, 5]


def test_buckets_are_independent() -> None:
    values = [0, 3, 1.4, 100, 400, 200.0]
    assert one(values, levels_bits=2, bucket_numel=3) == [0, 3, 1, 100, 400, 200]


def test_an_incomplete_bucket() -> None:
    values = [0, 1.4, 3, 0, 1.4, 3, 10, 11.4, 13]
    assert one(values, levels_bits=2, bucket_numel=6)[6:] == [10, 11, 13]
    alone = one(values, levels_bits=2, bucket_numel=6, skip_incomplete=True)
    assert alone == pytest.approx([0, 1, 3, 0, 1, 3, 10, 11.4, 13])


def test_a_bucket_of_a_tiny_range_becomes_its_minimum() -> None:
    assert one([1e-11, 5e-11, 2e-10], levels_bits=8) == [F(1e-11)] * 3
    assert one([0, 5e-8], levels_bits=8) == [0, F(5e-8)]


def test_a_bucket_with_inf_or_nan_is_nan() -> None:
    for bad in (np.inf, -np.inf, np.nan):
        found = one([1, bad, 1, 1, 2, 3], levels_bits=2, bucket_numel=3)
        assert np.isnan(found).tolist() == [True] * 3 + [False] * 3


def test_all_to_all_adds_what_all_sent() -> None:
    values = np.array([[0, 1.4, 3], [0, 1.6, 3]], F)
    assert whole(Buckets(2, 2, requantize=False), values) == [0, 3, 6]


def test_the_owner_of_a_chunk_adds_its_own_values_and_sends_the_quantized_sum() -> None:
    own, other = [0, 2.6, 0, 3], [0, 0.4, 0, 3]
    values = np.array([own + other, other + own], F)
    # 2.6 + 0 in steps of 2 from 0 to 6. With its own values quantized as well it would be 3, so 4.
    assert whole(Buckets(2, 2), values) == [0, 2, 0, 6] * 2
    assert whole(Buckets(2, 2, requantize=False), values) == [0, 3, 0, 6] * 2


def test_chunks_are_aligned() -> None:
    def sizes(workers: int, numel: int) -> list[int]:
        return [len(chunk) for chunk in Buckets(workers, 4).chunks(numel)]

    assert sizes(2, 16) == [8, 8]
    assert sizes(3, 16) == [8, 4, 4]
    assert sizes(3, 100) == [36, 32, 32]
    assert sizes(4, 3) == [0, 3, 0, 0]
    assert sum(sizes(7, 12345)) == 12345


def test_blocks_do_not_change_the_sums() -> None:
    values = np.random.default_rng(2).standard_normal((3, 1000)).astype(F)
    for settings in ({}, {"requantize": False}, {"skip_incomplete": True}):
        method = Buckets(3, 4, bucket_numel=32, **settings)
        assert whole(method, values) == whole(method, values, most=64)


def test_random_rounding_is_unbiased_and_seeded() -> None:
    values = np.tile(np.array([[0.3], [0.3]], F), (1, 20_000))
    values[:, ::100] = 0
    values[:, 1::100] = 1
    found = {
        seed: whole(Buckets(2, 1, 100, requantize=False, stochastic=True, seed=seed), values)
        for seed in (1, 2)
    }
    again = whole(Buckets(2, 1, 100, requantize=False, stochastic=True, seed=1), values)
    assert found[1] == again != found[2]
    assert 0.58 < np.mean([v for i, v in enumerate(found[1]) if i % 100 > 1]) < 0.62
    assert set(found[1]) == {0, 1, 2}


def test_bits_of_buckets() -> None:
    assert Buckets(2, 4).bits(1024) == 4 + 64 / 512
    assert Buckets(2, 4).sent(1024) == 4 + 64 / 512
    assert Buckets(8, 4).sent(8 * 512) == (4 + 64 / 512) * 14 / 8
    assert Buckets(8, 4, requantize=False).sent(512) == (4 + 64 / 512) * 7
    assert Buckets(1, 2, 100).bits(110) == (2 * 110 + 2 * 64) / 110
    assert Buckets(1, 2, 100, skip_incomplete=True).bits(110) == (2 * 100 + 64 + 320) / 110
    assert (Buckets(2, 1).name, Buckets(2, 8).name) == ("CGX, 1 bit", "CGX, 8 bits")


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
    assert whole(Lanes(2, 8, 4, skip_incomplete=True), values)[4] == F(0.2)


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
    assert Lanes(2, 4, 100, skip_incomplete=True).bits(107) == 32 * (17 + 7 + 1) / 107
    assert Lanes(2, 1).name == "SwitchML, 1 bit"
