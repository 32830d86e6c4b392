"""Random tensors for every worker, the same on every run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from patchgen.extras.accuracy.blocks import Block

_SIGMA = 3.0  # of the logarithms: 99 of 100 magnitudes lie within seven decades


def _normal(random: np.random.Generator, size: int) -> NDArray[np.float64]:
    return random.standard_normal(size)


def _uniform(random: np.random.Generator, size: int) -> NDArray[np.float64]:
    return random.uniform(-1, 1, size)


def _laplace(random: np.random.Generator, size: int) -> NDArray[np.float64]:
    return random.laplace(size=size)


def _lognormal(random: np.random.Generator, size: int) -> NDArray[np.float64]:
    values = random.standard_normal((size, 2))
    return np.copysign(np.exp(_SIGMA * values[:, 0]), values[:, 1])


DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "normal": _normal,
    "uniform": _uniform,
    "laplace": _laplace,
    "lognormal": _lognormal,
}


@dataclass(frozen=True)
class Random:
    """Independent values of one distribution, times `scale`."""

    distribution: str
    scale: float
    seed: int
    workers: int
    numel: int

    @property
    def origin(self) -> str:
        """Description of the values."""
        return f"{self.distribution}, scale {self.scale:g}, seed {self.seed}"

    def read(self, cuts: Iterable[Block]) -> Iterator[NDArray[np.float32]]:
        """Yields the blocks, float32 [workers, numel]; the values do not depend on the cuts."""
        draw = DISTRIBUTIONS[self.distribution]
        seeds = np.random.SeedSequence(self.seed).spawn(self.workers)
        generators = [np.random.default_rng(seed) for seed in seeds]
        for cut in cuts:
            values = np.empty((self.workers, cut.end - cut.begin), np.float32)
            with np.errstate(over="ignore", under="ignore"):
                for row, random in zip(values, generators):
                    row[:] = self.scale * draw(random, len(row))
            yield values
