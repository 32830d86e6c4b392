"""Computations of a verifying rank, with a torch whose numbers are all NaN."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from patchgen.core.verify.payload import verify_work
from patchgen.core.verify.payload.verify_rank import VerifyingRank


class Lost:
    """A torch, each of its modules and functions, and each of its tensors."""

    def __call__(self, *_: object, **__: object) -> Lost:
        return self

    def __iter__(self) -> Iterator[Lost]:
        return iter((self, self))

    def __float__(self) -> float:
        return math.nan

    def __getattr__(self, name: str) -> Lost:
        return self

    __add__ = __radd__ = __sub__ = __mul__ = __getitem__ = __call__

    def svd(self, _: object) -> tuple[Lost, Lost, Lost]:
        return self, self, self


TORCH: Any = Lost()


def test_a_sum_that_is_nan_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    rank = VerifyingRank.__new__(VerifyingRank)  # without the torch that it imports
    rank.torch = rank.dist = TORCH
    rank.rank, rank.world, rank.equal = 0, 2, False
    monkeypatch.setattr(rank, "bound", lambda _: 1.0)
    assert len(rank.sums(TORCH.float32, (1, 256))["problems"]) == 2


@pytest.mark.parametrize("work", [verify_work.matmul, verify_work.svd])
def test_a_product_that_is_nan_is_wrong(work: Any) -> None:
    assert work(TORCH)["problems"]


def test_a_weight_that_is_nan_is_wrong() -> None:
    assert verify_work.differs(TORCH, TORCH)
