"""`switchml-patch demo` with a real torch: two trainings, the table and the picture."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.programs import script
from support.simulator import FLAGS
from support.torch import Plugin
from support.waiting import captured, has_ended, read_rest, read_until, until

from patchgen.extras.train.result_text import NOTHING

STEPS = 64  # of an epoch of two ranks
WEIGHTS = 71754
BYTES = 4 * WEIGHTS * STEPS


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of all demos here: the first one builds the simulator into it."""
    return tmp_path_factory.mktemp("cache")


def command(python: Path, output: Path, cache: Path) -> list[str]:
    demo = [sys.executable, "-m", "patchgen", "demo", "--epochs", "1"]
    return [*demo, *map(str, ["--torch", python, "--output", output, "--cache", cache])]


def environment(**environ: str) -> dict[str, str]:
    """The demo's simulator is compiled as all simulators of the run are, which ccache knows."""
    return {**os.environ, "CXXFLAGS": FLAGS, **environ}


def demo(
    python: Path, output: Path, cache: Path, **environ: str
) -> subprocess.CompletedProcess[str]:
    return captured(command(python, output, cache), cwd=output.parent, env=environment(**environ))


def wrapper(path: Path, python: Path, lines: str) -> Path:
    """An interpreter that does something before it begins."""
    return script(path, f'#!/bin/sh\n{lines}\nexec "{python}" "$@"\n')


def test_two_trainings_that_come_to_the_same(light: Plugin, cache: Path, tmp_path: Path) -> None:
    output = tmp_path / "a demo (of mine)"
    (output / "gloo").mkdir(parents=True)
    (output / "gloo" / "0.json").write_text("left over")
    # What the user has set for other runs is not for this one.
    done = demo(light.python, output, cache, SWITCHML_DISABLE="1", SWITCHML_MIN_NUMEL="100000000")
    assert done.returncode == 0, done.stderr
    data = json.loads((output / "demo.json").read_text())
    assert (data["variant"], data["simulated"], data["ranks"]) == ("plugin", True, 2)
    assert data["steps"] == STEPS
    assert data["delegated"] == {"calls": STEPS, "bytes": BYTES}
    assert data["fallbacks"] == {"dtype": 1}
    assert 0 <= data["deviation"] <= data["allowed"] < 1e-3
    for name in ("stock", "switchml"):
        losses = data[name]["losses"]
        assert len(losses) == STEPS
        assert sum(losses[-8:]) < 0.7 * sum(losses[:8])
        assert data[name]["accuracies"][0] > 0.4
    assert data["stock"]["losses"] == pytest.approx(data["switchml"]["losses"], abs=1e-4)

    rows = [re.split(r"\s{2,}", line) for line in done.stdout.splitlines()]
    assert ["allreduces delegated to SwitchML", "0", f"{STEPS}"] in rows
    assert ["bytes summed by SwitchML, of each rank", "0", f"{BYTES:,}"] in rows
    assert ["allreduces left to Gloo: of other types", "1"] in rows
    assert "The switch was a process on this machine" in " ".join(done.stdout.splitlines())
    assert re.search(rf"^  {STEPS} of {STEPS}, \d+ s$", done.stderr, re.MULTILINE)
    assert "\x1b" not in done.stdout + done.stderr

    assert (output / "loss.png").exists()
    assert (output / "train.py").read_text().startswith('"""Train a small network')
    for name in ("gloo", "switchml"):
        printed = (output / name / "output.txt").read_text()
        assert f"[0] step {STEPS} of {STEPS}: loss" in printed
        weights = [(output / name / f"{rank}.weights").read_bytes() for rank in (0, 1)]
        assert len(weights[0]) == 4 * WEIGHTS
        assert weights[0] == weights[1]


def test_nothing_delegated_is_a_failure(light: Plugin, cache: Path, tmp_path: Path) -> None:
    python = wrapper(tmp_path / "python", light.python, "export SWITCHML_DISABLE=1")
    done = demo(python, tmp_path / "out", cache)
    assert done.returncode == 6, done.stderr
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert error.startswith(f"error: {NOTHING}: ")
    assert "SWITCHML_DISABLE" in error
    assert "output.txt" in error
    assert done.stdout == ""
    assert "training with stock Gloo" not in done.stderr
    assert not (tmp_path / "out" / "demo.json").exists()


def test_a_rank_that_fails(light: Plugin, cache: Path, tmp_path: Path) -> None:
    line = '[ "${RANK:-}" != 1 ] || { echo "no luck today" >&2; exit 3; }'
    done = demo(wrapper(tmp_path / "python", light.python, line), tmp_path / "out", cache)
    assert done.returncode == 4, done.stderr
    error = done.stderr[done.stderr.index("error: ") + len("error: ") :].splitlines()
    assert error == [
        "the training with SwitchML failed: rank 1 failed with exit code 3; its last lines:",
        "  no luck today",
        f"all that was written is in {tmp_path}/out/switchml/output.txt",
    ]


def test_ctrl_c_leaves_nothing_running(light: Plugin, cache: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    line = f'[ -z "${{RANK:-}}" ] || {{ echo $$ >"{tmp_path}/$RANK.pid"; exec sleep 1000; }}'
    python = wrapper(tmp_path / "python", light.python, line)
    running = subprocess.Popen(
        command(python, output, cache), stderr=subprocess.PIPE, text=True,
        stdout=subprocess.DEVNULL, env=environment(),
    )  # fmt: skip
    with running:
        printed = read_until(running, "training with SwitchML")
        pids = [tmp_path / f"{rank}.pid" for rank in (0, 1)]
        until(lambda: all(pid.exists() and pid.read_text() for pid in pids), running)
        running.send_signal(signal.SIGINT)
        printed += read_rest(running)
    assert running.returncode == 130, printed
    assert printed.splitlines()[-1] == "interrupted"
    assert "Traceback" not in printed
    assert all(has_ended(pid.read_text().strip()) for pid in pids)
    assert not (output / "loss.png").exists()
