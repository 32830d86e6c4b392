"""The command as a whole, and its arithmetic against the simulator's processes."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support.simulator import Home, fixed_point_sum, packets, started
from support.trees import tool
from support.waiting import captured

from patchgen.extras.accuracy.fixed_point import FixedPoint
from patchgen.extras.accuracy.measure import Method
from patchgen.extras.accuracy.methods import Float32

Floats = NDArray[np.float32]

SIZES = (1, 3, 63, 257, 4099, 50_021)
RUN = 40  # elements of one kind: more and less than a packet


def hostile(rng: np.random.Generator, workers: int, numel: int) -> Floats:
    """Short runs of each kind of float32 among ordinary ones; one inf makes a whole packet NaN."""
    shape = (workers, numel)

    def bits(low: int, high: int) -> Floats:
        return rng.integers(low, high, shape, dtype=np.uint32).view(np.float32)

    def one_of(*values: float) -> Floats:
        signed = np.array([*values, *(-value for value in values)], np.float32)
        drawn: Floats = rng.choice(signed, shape)
        return drawn

    spread = 10.0 ** rng.integers(-9, 9, shape)
    kinds = [
        (rng.standard_normal(shape) * spread).astype(np.float32),
        np.zeros(shape, np.float32),
        bits(1, 1 << 23),  # subnormal
        bits(0, 0x7F800000),  # any finite
        one_of(0, 2.0**-126, 2.0**-98, 2.0**-97, 1e-30),
        one_of(0.99999994, 1, 16777215, 0.5, 2.0**-31),
        one_of(float(np.finfo(np.float32).max), 2.0**126, 8.5e37, 1),
        one_of(np.inf, 1, 2, 3),
        one_of(np.nan, 1, 2, 3),
    ]
    run = np.arange(numel) // RUN
    kind = np.where(run % 7 == 0, run // 7 % len(kinds), 0)
    return np.ascontiguousarray(np.stack(kinds)[kind, :, np.arange(numel)].T)


def summed(method: Method, values: Floats, most: int) -> Floats:
    numel = values.shape[1]
    blocks = method.blocks(numel, most)
    found = [method.sum(values[:, one.start : one.stop]) for one in blocks]
    return np.concatenate(found)


@pytest.mark.parametrize(
    ("workers", "threads", "packet_numel"), [(2, 4, 256), (3, 1, 64), (5, 3, 7)]
)
def test_numpy_and_the_simulator_agree_bit_for_bit(
    simulator_home: Home, tmp_path: Path, workers: int, threads: int, packet_numel: int
) -> None:
    rng = np.random.default_rng([workers, threads, packet_numel])
    method = FixedPoint(workers, packet_numel, threads)
    config = {"num_worker_threads": threads, "packet_numel": packet_numel}
    with started(simulator_home.driver, tmp_path, workers, values=config) as group:
        for size in SIZES:
            values = hostile(rng, workers, size)
            expected = summed(method, values, most=1000).tobytes()
            assert group.reduce(list(values)) == [expected] * workers


@pytest.mark.parametrize("workers", [1, 2, 3, 7, 255, 256, 1000])
def test_numpy_and_the_description_agree_bit_for_bit(workers: int) -> None:
    rng = np.random.default_rng(workers)
    values = hostile(rng, workers, 3000)
    values[:, :100] = 0.99999994  # what needs the limit, with 256 workers and more
    expected = fixed_point_sum(list(values), packets(3000, threads=3, packet_numel=20))
    found = summed(FixedPoint(workers, 20, 3), values, most=333)
    assert found.tobytes() == expected.tobytes()


def test_float32_is_added_as_with_bypass(simulator_home: Home, tmp_path: Path) -> None:
    values = hostile(np.random.default_rng(0), 3, 4099)
    values[np.isnan(values)] = 0  # which NaN comes out is up to the processor
    with started(simulator_home.driver, tmp_path, 3, bypass=True) as group:
        (found, *_) = group.reduce(list(values))
    expected = summed(Float32(3), values, most=100)
    result = np.frombuffer(found, np.float32)
    assert np.array_equal(result, expected, equal_nan=True)


def test_a_table() -> None:
    done = tool("accuracy", "--numel", "5000", "--workers", "3")
    first, empty, header, rule, *rows = done.stdout.splitlines()
    assert first == "5000 elements on 3 workers: normal values, seed 0"
    assert (empty, set(rule)) == ("", {"-"})
    assert header.split("  ")[0] == "summed by"
    assert [row.split()[0] for row in rows] == ["SwitchML", "float32"]


def test_data_for_scripts(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    values = rng.standard_normal((4, 10, 300)).astype(np.float32)
    values[2, 5, 7] = np.inf
    np.save(tmp_path / "gradient.npy", values)
    options = ["--packet-numel", "64", "--num-worker-threads", "2"]
    again = [
        tool("accuracy", str(tmp_path / "gradient.npy"), *options, "--seed", "3", "--json").stdout
        for _ in range(2)
    ]
    assert again[0] == again[1]
    data = json.loads(again[0])
    assert data["values"] == str(tmp_path / "gradient.npy")
    assert (data["workers"], data["numel"], data["undefined"]) == (4, 3000, 1)
    assert data["may_overflow"] is False
    switchml, plain = data["methods"]
    assert switchml["settings"] == {"workers": 4, "packet_numel": 64, "threads": 2}
    assert switchml["not_finite"] == 63  # the rest of the packet
    assert switchml["relative_error"] < 1e-7
    assert (plain["name"], plain["bits_per_element"]) == ("float32", 32)
    assert plain["sent_per_element"] == 48
    assert plain["not_finite"] == 0


def test_a_group_that_stays_with_gloo_is_reported() -> None:
    done = tool("accuracy", "--numel", "100", "--workers", "256")
    assert "may overflow with 256 workers, so a group of that size stays with Gloo" in done.stdout
    done = tool("accuracy", "--numel", "100", "--workers", "257")
    assert "overflow" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["none.npy"], 5, "none.npy: No such file"),
        (["weights.pt"], 2, "numpy.save"),
        (["none.npy", "--numel", "5"], 2, "--numel is for random values"),
        (["--workers", "65536"], 2, "65536 is not in the range"),
    ],
)
def test_what_is_refused(tmp_path: Path, arguments: list[str], code: int, words: str) -> None:
    done = tool("accuracy", *arguments, cwd=tmp_path, code=code)
    assert words in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "from patchgen.cli import main; main(sys.argv[1:], prog_name='switchml-patch')"
    )
    done = captured([sys.executable, "-c", code, "accuracy"], cwd=tmp_path)
    command = shlex.join([sys.executable, "-m", "pip", "install", "numpy>=1.21"])
    assert (done.returncode, done.stderr) == (
        4,
        f"error: numpy: not installed; run: {command}\n",
    )
    assert list(tmp_path.iterdir()) == []
