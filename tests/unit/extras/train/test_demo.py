"""What the demo measures, compares and tells."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import demo_outcomes as made

from patchgen.cli import demo
from patchgen.errors import FileError
from patchgen.extras.train.demo import demo_text, picture, training
from patchgen.extras.train.demo.comparison import Comparison
from patchgen.extras.train.start import Line

FLOAT32 = 2.0**-24


def test_the_deviation_is_that_of_the_worst_rank() -> None:
    stock = made.training([[1.0, 2.0], [1.0, 2.0]])
    other = made.training([[1.0, 2.0], [1.0, 2.5]], made.report(), made.report())
    assert Comparison(stock, other).deviation == 0.5
    assert Comparison(stock, stock).deviation == 0


def test_what_rounding_explains() -> None:
    """Each step: two roundings of the weights, and those of a sum, with 2 ranks 3 and 1."""
    found = made.outcome()
    weight, gradient = 2.0, 0.5
    in_sum = gradient * (4 * FLOAT32 + 2 * 2.0**-31)
    assert found.allowed == pytest.approx(made.STEPS * (2 * FLOAT32 * weight + in_sum))
    slower = dataclasses.replace(found.stock, reach=0.0)
    assert dataclasses.replace(found, stock=slower).allowed == pytest.approx(
        made.STEPS * 2 * FLOAT32 * weight
    )


def test_problems() -> None:
    assert made.outcome().problems() == []
    assert made.outcome(by=0.0).problems() == []
    (wrong,) = made.outcome(by=1e-3).problems()
    assert wrong.startswith("the weights differ by 1.0e-03, and rounding explains 1.")
    (lost,) = made.outcome(by=math.nan).problems()
    assert "differ by nan" in lost
    stock = made.training([[1.0, 2.0], [1.0, 2.0]])
    other = made.training([[1.0, 2.0], [1.0, np.nextafter(np.float32(2), np.float32(3))]])
    assert Comparison(stock, other).problems() == [
        "rank 1 has learnt other weights than rank 0, with SwitchML; sums must be the same"
    ]


def test_counters_are_those_of_the_rank_that_delegated_least() -> None:
    reports = [made.report(40, dtype=3, op=0), made.report(39, dtype=4, numel=1), None]
    found = Comparison(made.training([[1.0]]), made.training([[1.0]] * 3, *reports))
    assert (found.ranks, found.switchml.calls, found.switchml.bytes) == (3, 39, made.BYTES)
    assert found.switchml.fallbacks == {"dtype": 4, "numel": 1}
    nothing = made.training([[1.0]] * 2, None, None)
    assert (nothing.calls, nothing.bytes, nothing.fallbacks) == (0, 0, {})


def test_the_table_and_the_words() -> None:
    lines = list(demo_text.lines(made.outcome(), "out/loss.png", "switchml-patch run -- train.py"))
    rows = {re.split(r"\s{2,}", line)[0]: re.split(r"\s{2,}", line)[1:] for line in lines}
    assert rows["unseen digits that are read right"] == ["90.0%", "90.0%"]
    assert rows["largest deviation of a weight"] == ["1.0e-06"]
    first, last = (rows[f"loss, mean of the {which} epoch"][0] for which in ("first", "last"))
    losses = 2.0 * np.exp(-np.arange(made.STEPS) / 10)
    assert float(first) == pytest.approx(losses[:10].mean(), abs=1e-4)
    assert float(last) == pytest.approx(losses[-10:].mean(), abs=1e-4)
    text = " ".join(lines)
    assert "out/loss.png" in text
    assert lines[-1] == "  switchml-patch run -- train.py"


def test_no_row_without_a_fallback_and_no_word_of_a_process_with_a_real_switch() -> None:
    text = "\n".join(demo_text.lines(made.outcome(simulated=False, dtype=0), "p", "c"))
    assert "left to Gloo" not in text
    assert "process on this machine" not in text


def test_a_curve_of_few_points() -> None:
    values = np.arange(1000, dtype=np.float64)
    steps, means = picture.means(values)
    assert len(steps) == len(means) == 64
    assert steps - 1 == pytest.approx(means)
    assert steps[0] == pytest.approx(8.5)
    assert steps[-1] == pytest.approx(1000 - 7)
    steps, means = picture.means(values[:3])
    assert (list(steps), list(means)) == ([1, 2, 3], [0, 1, 2])


@pytest.mark.parametrize("off", [1e-7, 0.0])
def test_curves_that_coincide_are_both_seen(tmp_path: Path, off: float) -> None:
    image = pytest.importorskip("matplotlib.image", reason="comes with the extra `plots`")
    found = made.outcome()
    other = dataclasses.replace(found.switchml, losses=found.stock.losses + off)
    path = tmp_path / "loss.png"
    picture.write(str(path), Comparison(found.stock, other))
    pixels = image.imread(path)[:, : 1728 // 2, :3]
    assert image.imread(path).shape[:2] == (672, 1728)
    blue = (pixels[..., 2] > 0.6) & (pixels[..., 0] < 0.6)
    orange = (pixels[..., 0] > 0.7) & (pixels[..., 2] < 0.3)
    assert blue.sum() > 2000
    assert orange.sum() > 1000


def test_the_picture_is_the_same_whatever_the_user_has_set(tmp_path: Path) -> None:
    mpl = pytest.importorskip("matplotlib", reason="comes with the extra `plots`")
    path = tmp_path / "loss.png"
    picture.write(str(path), made.outcome())
    expected = path.read_bytes()
    with mpl.rc_context({"lines.linewidth": 9, "font.size": 30, "axes.grid": False}):
        picture.write(str(path), made.outcome())
        assert mpl.rcParams["lines.linewidth"] == 9
    assert path.read_bytes() == expected
    assert [one.name for one in tmp_path.iterdir()] == ["loss.png"]
    with pytest.raises(FileError, match="Not a directory"):
        picture.write(str(path / "loss.png"), made.outcome())


def write(directory: Path, rank: int, weights: list[float], **measured: Any) -> None:
    figures = {
        "losses": [2.0, 1.0],
        "accuracies": [0.5],
        "largest_gradient": 0.25,
        "learning_rate": 0.1,
        "momentum": 0.9,
        **measured,
    }
    (directory / f"{rank}.json").write_text(json.dumps(figures))
    np.array(weights, dtype=np.float32).tofile(directory / f"{rank}.weights")


def test_what_the_ranks_measured(tmp_path: Path) -> None:
    write(tmp_path, 0, [1.0, 2.0])
    write(tmp_path, 1, [1.0, 3.0], losses=[4.0, 2.0], largest_gradient=0.75)
    result = made.training([[1.0]]).result
    found = training.read_training(str(tmp_path), 2, result, 3.0, "log")
    assert list(found.losses) == [3.0, 1.5]
    assert [list(weights) for weights in found.weights] == [[1.0, 2.0], [1.0, 3.0]]
    assert found.largest_gradient == 0.75
    assert found.reach == pytest.approx(1.0)
    with pytest.raises(FileError, match=r"2\.json"):
        training.read_training(str(tmp_path), 3, result, 3.0, "log")


def test_lines_of_the_ranks_become_progress_and_a_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "patchgen")
    log = tmp_path / "output.txt"
    with open(log, "wb", buffering=0) as file:
        watch = training.Watch(file)
        watch(Line(0, error=False, text=b"step 16 of 64: loss 2.0\n"))
        watch(Line(1, error=False, text=b"step 17 of 64: loss 2.0\n"))
        watch(Line(0, error=True, text=b"step 18 of 64: loss 2.0\n"))
        for number in range(5):
            watch(Line(1, error=True, text=b"line %d\n\n" % number))
        watch(Line(None, error=True, text=b"of none\n"))
    counted = [(one.__dict__["done"], one.__dict__["total"]) for one in caplog.records]
    assert counted == [(16, 64)]
    assert list(watch.last[1]) == ["line 2", "line 3", "line 4"]
    lines = log.read_text().splitlines()
    assert lines[:3] == [f"[{n}] step {s} of 64: loss 2.0" for n, s in ((0, 16), (1, 17), (0, 18))]
    assert lines[-1] == "of none"


def test_paths_are_shown_as_short_as_they_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert demo.near(str(tmp_path / "build" / "demo")) == os.path.join("build", "demo")
    assert demo.near("/bin/x") == "/bin/x"
