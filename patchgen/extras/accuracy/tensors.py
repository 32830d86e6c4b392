"""Tensors of every worker: from files, or random ones that are the same on every run."""

from __future__ import annotations

import os
import shlex
import zipfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Protocol

import numpy as np

from patchgen.errors import OptionsError, file_errors
from patchgen.system.paths import describe, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from patchgen.extras.accuracy.methods import Block

RAW = (".bin", ".f32", ".raw")
_TORCH = (".pt", ".pth")


class Tensors(Protocol):
    """Tensors of the workers, all with the same number of elements."""

    @property
    def workers(self) -> int:
        """Number of workers."""

    @property
    def numel(self) -> int:
        """Elements of each."""

    @property
    def origin(self) -> str:
        """Description of the values."""

    def read(self, cuts: Iterable[Block]) -> Iterator[NDArray[np.float32]]:
        """Yields ascending blocks without a gap, float32 [workers, numel]."""


@dataclass(frozen=True)
class Stored:
    """Tensors in files, of which only the block in use is in memory, except for .npz."""

    origin: str
    parts: Sequence[NDArray[Any]]
    """Flat tensor of each worker; any type of float."""

    @property
    def workers(self) -> int:
        """Number of workers."""
        return len(self.parts)

    @property
    def numel(self) -> int:
        """Elements of each."""
        return len(self.parts[0])

    def read(self, cuts: Iterable[Block]) -> Iterator[NDArray[np.float32]]:
        """Yields the blocks, float32 [workers, numel]."""
        for cut in cuts:
            values = np.empty((self.workers, cut.end - cut.begin), np.float32)
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                for row, part in zip(values, self.parts):
                    row[:] = part[cut.begin : cut.end]
            yield values


def load(files: Sequence[str], workers: int | None = None, copies: int | None = None) -> Stored:
    """Tensors of all workers.

    Args:
        files: one of which the first axis counts the workers; or one for each worker.
        workers: how many there must be; a raw file needs it to be split.
        copies: one file is the tensor of one worker, and so many workers have it.

    Raises:
        OptionsError: a file is no array of floats, or they do not fit together.
        FileError: a file cannot be read.
    """
    origin = ", ".join(map(describe, files[:3]))
    if len(files) > len(files[:3]):
        origin += f" and {len(files) - 3} more"
    if copies is not None:
        if len(files) > 1:
            raise OptionsError(f"--copies is for one file, and there are {len(files)}")
        return Stored(f"{origin}, the same on all", [_flat(_arrays(files[0]))] * copies)
    if len(files) == 1:
        parts = _by_axis(files[0], workers)
    else:
        parts = [_flat(_arrays(file)) for file in files]
    if workers not in {None, len(parts)}:
        raise OptionsError(
            f"{origin}: {len(parts)} workers, but --workers is {workers}; drop it, or give as "
            "many tensors"
        )
    for file, part in zip(files, parts):
        if len(part) != len(parts[0]):
            raise OptionsError(
                f"{describe(file)}: {len(part)} elements, {describe(files[0])} has "
                f"{len(parts[0])}; all workers sum tensors of the same size"
            )
    return Stored(origin, parts)


def _by_axis(file: str, workers: int | None) -> list[NDArray[Any]]:
    arrays = _arrays(file)
    if file.endswith(RAW):
        (flat,) = arrays
        if workers is None:
            raise OptionsError(
                f"{describe(file)}: has no shape; say with --workers of how many workers it holds "
                "the tensors, one after another"
            )
        if len(flat) % workers:
            raise OptionsError(
                f"{describe(file)}: {len(flat)} float32 are no tensors of {workers} workers; "
                "change --workers"
            )
        arrays = [flat.reshape(workers, -1)]
    for array in arrays:
        if array.ndim < 2:  # noqa: PLR2004  # workers and elements
            raise OptionsError(
                f"{describe(file)}: an array of shape {array.shape}; its first axis has to count "
                "the workers. For the tensor of one worker, give a file for each, or --copies"
            )
        if len(array) != len(arrays[0]):
            raise OptionsError(f"{describe(file)}: its arrays are of different numbers of workers")
    return [_flat([array[rank] for array in arrays]) for rank in range(len(arrays[0]))]


def _flat(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    flat = [array.reshape(-1) for array in arrays]
    return flat[0] if len(flat) == 1 else np.concatenate(flat)


def _arrays(file: str) -> list[NDArray[Any]]:
    """The arrays of a file; those of .npz in their order, as layers of one gradient."""
    arrays = _read(file)
    for array in arrays:
        if array.dtype.kind != "f":
            raise OptionsError(
                f"{describe(file)}: holds {array.dtype}; SwitchML sums float32, and int32 exactly"
            )
    if not sum(array.size for array in arrays):
        raise OptionsError(f"{describe(file)}: holds no elements")
    return arrays


def _read(file: str) -> list[NDArray[Any]]:
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
    if suffix not in {".npy", ".npz", *RAW}:
        known = " ".join([".npy", ".npz", *RAW])
        raise OptionsError(f"{describe(file)}: its name has to end with one of {known}")
    try:
        with file_errors():
            if suffix in RAW:
                return [_raw(file)]
            return [np.lib.format.open_memmap(file, "r")] if suffix == ".npy" else _archive(file)
    except (EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise OptionsError(
            f"{describe(file)}: no {suffix} file of an array of numbers: {error}"
        ) from error


def _archive(file: str) -> list[NDArray[Any]]:
    with open(file, "rb") as stream, np.lib.npyio.NpzFile(stream) as archive:
        arrays = {name: archive[name] for name in archive.files}
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise OptionsError(f"{describe(file)}: holds {printable(name)}, which is no array")
    return list(arrays.values())


def _raw(file: str) -> NDArray[np.float32]:
    size = os.stat(file).st_size
    if not size or size % 4:
        raise ValueError(f"{size} bytes are no float32")
    return np.memmap(file, "<f4", "r")


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
