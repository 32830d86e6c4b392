"""Tensors of every worker, from files or from a seeded random generator."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from patchgen.errors import OptionsError, file_errors
from patchgen.system.paths import describe

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TORCH = (".pt", ".pth")


@dataclass(frozen=True)
class Stored:
    """Tensors in files that are memory-mapped, so that only one block is in memory."""

    origin: str
    parts: Sequence[NDArray[Any]]
    """Flat tensor of each worker; any type of float."""

    @property
    def workers(self) -> int:
        """Number of workers."""
        return len(self.parts)

    @property
    def numel(self) -> int:
        """Number of elements of each worker."""
        return len(self.parts[0])

    def read(self, cuts: Iterable[range]) -> Iterator[NDArray[np.float32]]:
        """Yield the blocks, float32 [workers, numel]."""
        for cut in cuts:
            values = np.empty((self.workers, len(cut)), np.float32)
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                for row, part in zip(values, self.parts):
                    row[:] = part[cut.start : cut.stop]
            yield values


def load(files: Sequence[str]) -> Stored:
    """Load a file whose first axis counts the workers, or one file for each worker.

    Raises:
        OptionsError: a file is not an array of floats, or the files differ in size.
        FileError: a file cannot be read.
    """
    origin = ", ".join(map(describe, files[:3]))
    if len(files) > len(files[:3]):
        origin += f" and {len(files) - 3} more"
    if len(files) == 1:
        return Stored(origin, _by_axis(files[0]))
    parts = [_read(file).reshape(-1) for file in files]
    for file, part in zip(files, parts):
        if len(part) != len(parts[0]):
            raise OptionsError(
                f"{describe(file)}: {len(part)} elements, {describe(files[0])} has "
                f"{len(parts[0])}; all workers sum tensors of the same size"
            )
    return Stored(origin, parts)


def _by_axis(file: str) -> list[NDArray[Any]]:
    array = _read(file)
    if array.ndim < 2:  # noqa: PLR2004  # workers and elements
        raise OptionsError(
            f"{describe(file)}: an array of shape {array.shape}; its first axis has to count "
            "the workers. For the tensor of one worker, give a file for each"
        )
    return [tensor.reshape(-1) for tensor in array]


def _read(file: str) -> NDArray[Any]:
    suffix = os.path.splitext(file)[1]
    if suffix in _TORCH:
        code = (
            'import sys, numpy, torch; values = torch.load(sys.argv[1], map_location="cpu"); '
            "numpy.save(sys.argv[2], values.detach().float().numpy())"
        )
        target = shlex.quote(f"{describe(file)[: -len(suffix)]}.npy")
        raise OptionsError(
            f"{describe(file)}: a file of torch, which only torch reads; convert it:\n"
            f"python3 -c '{code}' {shlex.quote(describe(file))} {target}"
        )
    try:
        with file_errors():
            array: NDArray[Any] = np.lib.format.open_memmap(file, "r")
    except (EOFError, ValueError) as error:
        raise OptionsError(
            f"{describe(file)}: no .npy file of an array of numbers: {error}"
        ) from error
    if array.dtype.kind != "f":
        raise OptionsError(
            f"{describe(file)}: holds {array.dtype}; SwitchML sums float32, and int32 exactly"
        )
    if not array.size:
        raise OptionsError(f"{describe(file)}: holds no elements")
    return array


@dataclass(frozen=True)
class Random:
    """Independent values of the normal distribution."""

    seed: int
    workers: int
    numel: int

    @property
    def origin(self) -> str:
        """Description of the values."""
        return f"normal values, seed {self.seed}"

    def read(self, cuts: Iterable[range]) -> Iterator[NDArray[np.float32]]:
        """Yield the blocks, float32 [workers, numel]. The values do not depend on the blocks."""
        seeds = np.random.SeedSequence(self.seed).spawn(self.workers)
        generators = [np.random.default_rng(seed) for seed in seeds]
        for cut in cuts:
            values = np.empty((self.workers, len(cut)), np.float32)
            for row, random in zip(values, generators):
                row[:] = random.standard_normal(len(row))
            yield values


Tensors = Union[Stored, Random]
