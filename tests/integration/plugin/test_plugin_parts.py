"""Parts of the plugin without torch, compiled in several ways: packing, and its threads."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support import quantize_model
from support.quantize_model import Model, Summed
from support.simulator import SANITIZED, SANITIZERS, SANITIZING
from support.waiting import captured

from patchgen.core.patch import render
from patchgen.templates import DIRECTORY

CPP = Path(__file__).parents[2] / "cpp"
HEADER = "delegate/src/base/quantize.hpp"
BUILDS = {
    "gcc": ["g++", "-O2", "-ftree-vectorize"],
    "clang": ["clang++", "-O2", "-DSWITCHML_WITHOUT_AVX2"],
    "address": [SANITIZING, *SANITIZERS["address"], *SANITIZED],
}
KEY = 2**63 + 12345


@dataclass(frozen=True)
class Case:
    model: Model
    values: NDArray[np.float32]
    divisor: int
    keep: bool = False
    parts: int = 1
    halve: bool = False

    def input(self) -> bytes:
        model = self.model
        numbers = (
            *(model.bits, model.ranks, model.bucket, model.stochastic, self.keep, self.divisor),
            *(KEY, self.parts, self.halve, self.values.shape[1]),
        )
        return np.array(numbers, np.uint64).tobytes() + self.values.tobytes()

    def expected(self) -> bytes:
        found: Summed = quantize_model.allreduce(
            self.model, self.values, self.divisor, KEY, halve=self.halve
        )
        all_of_it = found.scales.tobytes() + found.words.tobytes() + found.values.tobytes()
        return all_of_it + (found.kept.tobytes() if self.keep else b"")


@cache
def quantize(cases: str) -> tuple[bytes, bytes]:
    """What the program is given, and what it has to answer."""
    listed = [*CASES[cases]()]
    assert listed
    return b"".join(one.input() for one in listed), b"".join(one.expected() for one in listed)


@pytest.fixture(scope="module", params=BUILDS)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("quantize")
    (directory / "base").mkdir()
    (directory / "base/quantize.hpp").write_text(render.text(HEADER))
    out = directory / "quantize"
    more = ["-std=c++17", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", f"-I{directory}"]
    subprocess.run([*BUILDS[request.param], *more, CPP / "quantize.cpp", "-o", out], check=True)
    return out


def layers(seed: int, ranks: int, numel: int) -> NDArray[np.float32]:
    """Of all ranks, with values of many magnitudes."""
    random = np.random.default_rng(seed)
    values = random.standard_normal((ranks, numel)) * 2.0 ** random.integers(-6, 6, (1, numel))
    values[:, random.integers(numel)] = 0
    return values.astype(np.float32)


def every_width() -> Iterable[Case]:
    for bits, ranks in itertools.product(range(1, 9), range(1, 33)):
        values = layers(bits * 100 + ranks, ranks, 23)
        yield Case(Model(bits, ranks, 10), values, ranks if bits % 2 else 1, parts=1 + ranks % 3)


def random_and_kept() -> Iterable[Case]:
    choices = itertools.product((1, 2, 3, 4, 8), (1, 3), (False, True), (1, 61, 200))
    for bits, ranks, stochastic, bucket in choices:
        model = Model(bits, ranks, bucket, stochastic)
        yield Case(model, layers(bits + ranks, ranks, 130), ranks, keep=True, parts=2)


def extremes() -> Iterable[Case]:
    """Bucket by bucket: inf, NaN, zeros, numbers that are hardly floats, and ties."""
    largest, least = float(np.finfo(np.float32).max), float(np.float32(1e-45))
    for bits, stochastic in itertools.product((1, 2, 4, 8), (False, True)):
        highest = max(1, 2 ** (bits - 1) - 1)
        rows = [
            [np.inf, 1, 2, 3], [1, -np.nan, 2, 3], [0, 0, -0.0, 0], [largest, -largest, 1, least],
            [least, 0, -least, least], [3e-39, -1e-39, 2e-39, 0], [1e-30, -1e-31, 1e-32, 0],
            [highest, 0.5, 1.5, -0.5], [highest, -2.5, 2.5, -highest], [1, 1, 1, 1],
        ]  # fmt: skip
        mine = np.array(rows, np.float32).reshape(1, -1)
        other = np.full_like(mine, 1e-46)
        for values in (np.concatenate([mine, other]), np.concatenate([other, mine, mine])):
            model = Model(bits, len(values), 4, stochastic)
            for divisor in (1, len(values)):
                yield Case(model, values, divisor, keep=True)


def beyond_the_scale() -> Iterable[Case]:
    """A value that is beyond its scale must not reach the next lane."""
    for bits, ranks in itertools.product((2, 5, 8), (1, 3)):
        yield Case(Model(bits, ranks, 50), layers(bits, ranks, 120), 1, halve=True)


def overflow() -> Iterable[Case]:
    """All ranks have the largest value of both signs: the sums of the levels are at their ends."""
    for bits, ranks in itertools.product((2, 5, 8), (2, 7, 16, 31, 32)):
        values = np.tile(np.array([[1, -1, 1, -1, 1, 1, -1]], np.float32), (ranks, 1))
        yield Case(Model(bits, ranks, 7), values, 1)


CASES: dict[str, Callable[[], Iterable[Case]]] = {
    "every width": every_width,
    "random and kept": random_and_kept,
    "extremes": extremes,
    "overflow": overflow,
    "beyond the scale": beyond_the_scale,
}


@pytest.mark.parametrize("cases", CASES)
def test_same_bits_as_the_model(program: Path, cases: str) -> None:
    given, expected = quantize(cases)
    done = subprocess.run([program], input=given, capture_output=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    same = done.stdout == expected
    assert same  # the bytes themselves would fill pages


def test_the_model_sums() -> None:
    """What it was written for: a unit's half for each rank, at most."""
    for bits, ranks in ((2, 2), (4, 3), (8, 8)):
        values = layers(3, ranks, 300)
        model = Model(bits, ranks, 64)
        summed = quantize_model.allreduce(model, values, 1, KEY)
        exact = values.astype(np.float64).sum(axis=0)
        units = np.repeat(summed.scales.view(np.float32) / model.highest, 64)[:300]
        assert (np.abs(summed.values - exact) <= ranks * units * 0.5001).all()
        assert np.abs(summed.values - exact).max() > 0


POOL_BUILDS = {
    # The test has an operator new of its own, and so has clang's ThreadSanitizer.
    "thread": ("g++", [*SANITIZERS["thread"], *SANITIZED]),
    "address": (SANITIZING, ["-Wthread-safety", *SANITIZERS["address"], *SANITIZED]),
}


@pytest.mark.parametrize("build", POOL_BUILDS)
def test_pool(build: str, tmp_path: Path) -> None:
    """In a forked child not under ThreadSanitizer, which gives up after a fork of threads."""
    compiler, flags = POOL_BUILDS[build]
    command = [compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", *flags]
    own, shared = Path(DIRECTORY, "plugin", "src"), Path(DIRECTORY, "delegate", "src")
    sources = (CPP / "work_pool.cpp", own / "WorkPool.cpp")
    out = tmp_path / "pool"
    subprocess.run([*command, f"-I{own}", f"-I{shared}", *sources, "-o", out], check=True)
    environ = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1", "ASAN_OPTIONS": "detect_leaks=1"}
    done = captured([out, *(["forked"] if build != "thread" else [])], env=environ, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
